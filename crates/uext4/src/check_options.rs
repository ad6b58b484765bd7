//! How an image is checked.

/// How an image is checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions(uext4_check::CheckOptions);

impl CheckOptions {
    /// One thread for each CPU, and at most 10,000 faults.
    pub fn new() -> CheckOptions {
        CheckOptions::default()
    }

    /// Threads to use, at most 256. Default 0: one for each CPU.
    pub fn threads(mut self, count: usize) -> CheckOptions {
        self.0.threads = count;
        self
    }

    /// The most faults that a report lists; all are counted. Default 10,000.
    pub fn faults_max(mut self, count: usize) -> CheckOptions {
        self.0.faults_max = count;
        self
    }

    pub(crate) fn check(&self) -> &uext4_check::CheckOptions {
        &self.0
    }
}
