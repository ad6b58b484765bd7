//! Buckets of S3, and of what works as it does.

use super::store::{Created, Listed, ObjectStore, StoreError, StoreResult};
use futures_util::StreamExt;
use opendal::{ErrorKind, Operator, services};
use std::error::Error;
use std::ops::Range;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::runtime::Runtime;

/// What a request may take, beside its bytes.
const PATIENCE: Duration = Duration::from_secs(20);
/// What the pages of a list may take together.
const LIST_PATIENCE: Duration = Duration::from_secs(300);
/// Bytes that a slow connection carries in a second, of one request among others.
const SLOW: u64 = 64 << 10;
/// The region of stores that are not Amazon's, where none is named.
const REGION: &str = "us-east-1";

/// What opendal says of a range that goes beyond the end of an object, once it has read what there is.
const ENDS_BEFORE: &str = "reader got too little data";

/// Where requests run.
static RUNTIME: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
    opendal::install_default();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).thread_name("uext4-s3");
    builder.enable_all().build()
});

/// A prefix in a bucket. Credentials, region and endpoint are found as the tools of AWS find them: `AWS_ACCESS_KEY_ID` and the like, profiles,
/// web identities, the host's role; `AWS_REGION`; `AWS_ENDPOINT_URL_S3` and `AWS_ENDPOINT_URL`.
#[derive(Debug)]
pub struct S3Store {
    operator: Operator,
}

impl S3Store {
    /// Of a prefix in a bucket. No request is made.
    ///
    /// # Errors
    /// What is missing.
    pub fn new(bucket: &str, prefix: &str) -> StoreResult<S3Store> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let mut builder = services::S3::default().bucket(bucket).root(prefix);
        let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        match (&endpoint, region) {
            (_, Some(region)) => builder = builder.region(&region),
            (Some(_), None) => builder = builder.region(REGION),
            (None, None) => {
                let why = "no region is named: set AWS_REGION, and AWS_ENDPOINT_URL where the store is not Amazon's";
                return Err(StoreError::Refused(why.into()));
            }
        }
        if let Some(endpoint) = &endpoint {
            builder = builder.endpoint(endpoint);
        }
        Ok(S3Store {
            operator: Operator::new(builder).map_err(failed)?,
        })
    }

    /// Waits for a request of few bytes.
    fn wait<T>(&self, request: impl Future<Output = opendal::Result<T>>) -> Result<T, Failed> {
        self.wait_for(PATIENCE, request)
    }

    fn wait_for<T>(
        &self,
        patience: Duration,
        request: impl Future<Output = opendal::Result<T>>,
    ) -> Result<T, Failed> {
        let runtime = RUNTIME.as_ref().map_err(|e| Failed::Other(e.to_string()))?;
        let done = runtime.block_on(async { tokio::time::timeout(patience, request).await });
        match done {
            Ok(done) => done.map_err(Failed::Store),
            Err(_) => Err(Failed::Other(format!(
                "the store did not answer for {} seconds",
                patience.as_secs()
            ))),
        }
    }
}

/// Why a request failed.
enum Failed {
    Store(opendal::Error),
    Other(String),
}

impl From<Failed> for StoreError {
    fn from(e: Failed) -> StoreError {
        match e {
            Failed::Store(e) => failed(e),
            Failed::Other(why) => StoreError::Failed(why),
        }
    }
}

/// What S3 answers where two requests make one object at the same time: one of them is to be made again.
const CONFLICT: &str = "ConditionalRequestConflict";

/// What S3 answers for a bucket that does not exist.
const NO_BUCKET: &str = "NoSuchBucket";

fn failed(e: opendal::Error) -> StoreError {
    match e.kind() {
        ErrorKind::NotFound if e.message().contains(NO_BUCKET) => StoreError::Refused(
            "the store has not this bucket, or not for these credentials; its own tools make buckets".into(),
        ),
        ErrorKind::NotFound => StoreError::NotFound,
        ErrorKind::PermissionDenied => StoreError::Refused(format!(
            "the store refuses the credentials: {}",
            e.message()
        )),
        _ if e.is_permanent() && !e.message().contains(CONFLICT) => StoreError::Refused(reason(&e)),
        _ => StoreError::Failed(reason(&e)),
    }
}

/// What an error says, and its first cause: that of a request that was not sent names no reason itself.
fn reason(e: &opendal::Error) -> String {
    let mut cause: Option<&dyn Error> = e.source();
    while let Some(deeper) = cause.and_then(Error::source) {
        cause = Some(deeper);
    }
    match cause {
        Some(cause) => format!("{}: {cause}", e.message()),
        None => e.message().to_owned(),
    }
}

impl ObjectStore for S3Store {
    fn get(&self, name: &str, range: Option<Range<u64>>) -> StoreResult<Vec<u8>> {
        let Some(range) = range else {
            return Ok(self.wait(self.operator.read(name))?.to_vec());
        };
        let read = async {
            let reader = self.operator.reader(name).await?;
            let mut parts = reader.into_stream(range).await?;
            let mut bytes = Vec::new();
            loop {
                match parts.next().await {
                    Some(Ok(part)) => bytes.extend(part.to_vec()),
                    // The object ends before the range does.
                    Some(Err(e)) if !bytes.is_empty() && e.message() == ENDS_BEFORE => break,
                    Some(Err(e)) => return Err(e),
                    None => break,
                }
            }
            Ok(bytes)
        };
        Ok(self.wait(read)?)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> StoreResult<()> {
        let patience = PATIENCE + Duration::from_secs(bytes.len() as u64 / SLOW);
        self.wait_for(patience, self.operator.write(name, bytes.to_vec()))?;
        Ok(())
    }

    fn create(&self, name: &str, bytes: &[u8]) -> StoreResult<Created> {
        let write = self.operator.write_with(name, bytes.to_vec());
        match self.wait(async { write.if_not_exists(true).await }) {
            Ok(_) => Ok(Created::Yes),
            Err(Failed::Store(e)) if e.kind() == ErrorKind::ConditionNotMatch => {
                Ok(Created::Exists)
            }
            Err(e) => Err(e.into()),
        }
    }

    fn list(&self, prefix: &str) -> StoreResult<Vec<Listed>> {
        let list = self.operator.list_with(prefix).recursive(true);
        let entries = self.wait_for(LIST_PATIENCE, async { list.await })?;
        let objects = entries.into_iter().map(|entry| Listed {
            bytes: entry.metadata().content_length(),
            name: entry.path().to_owned(),
        });
        Ok(objects
            .filter(|object| !object.name.ends_with('/'))
            .collect())
    }

    fn delete(&self, names: &[String]) -> StoreResult<()> {
        Ok(self.wait(self.operator.delete_iter(names.to_vec()))?)
    }
}
