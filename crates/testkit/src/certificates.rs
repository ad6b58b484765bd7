//! Certificates for servers and clients of TLS, by certtool.

use crate::external::*;
use crate::program::{is_installed, run};

/// An authority and what it signs, in directories as servers and clients of NBD expect them.
#[derive(Debug)]
pub struct Certificates {
    dir: TempDir,
}

impl Certificates {
    /// A new authority, and a client that it knows. `None`, with a line on stderr, where certtool is not installed.
    ///
    /// # Errors
    /// certtool fails.
    pub fn new() -> Result<Option<Certificates>> {
        if !is_installed("certtool") {
            return Ok(None);
        }
        let all = Certificates {
            dir: tempfile::tempdir()?,
        };
        all.template("ca", "cn = \"An authority\"\nca\ncert_signing_key\n")?;
        all.make("ca", &["--generate-self-signed"])?;
        let client = all.template("client", "cn = \"A client\"\ntls_www_client\nsigning_key\n")?;
        all.sign("client")?;
        fs::copy(all.path("client.pem"), client.join("client-cert.pem"))?;
        fs::copy(all.path("client.key"), client.join("client-key.pem"))?;
        Ok(Some(all))
    }

    /// What a client has: the authority's certificate, its own, and its key.
    pub fn of_client(&self) -> PathBuf {
        self.path("client")
    }

    /// What a client has that has no certificate.
    ///
    /// # Errors
    /// The host's.
    pub fn of_stranger(&self) -> Result<PathBuf> {
        let dir = self.path("stranger");
        fs::create_dir_all(&dir)?;
        fs::copy(self.path("ca.pem"), dir.join("ca-cert.pem"))?;
        Ok(dir)
    }

    /// What a server of that name has; with `more` lines of the template.
    ///
    /// # Errors
    /// certtool fails.
    pub fn of_server(&self, name: &str, more: &str) -> Result<PathBuf> {
        let template =
            format!("cn = \"A server\"\ntls_www_server\nsigning_key\ndns_name = {name}\n{more}");
        let dir = self.template(name, &template)?;
        self.sign(name)?;
        fs::copy(
            self.path(&format!("{name}.pem")),
            dir.join("server-cert.pem"),
        )?;
        fs::copy(
            self.path(&format!("{name}.key")),
            dir.join("server-key.pem"),
        )?;
        Ok(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes what a certificate says, and makes the directory for it and the authority's.
    fn template(&self, name: &str, text: &str) -> Result<PathBuf> {
        let days = if text.contains("expiration_date") {
            ""
        } else {
            "expiration_days = 2\n"
        };
        fs::write(
            self.path(&format!("{name}.template")),
            format!("{text}{days}"),
        )?;
        let key = self.path(&format!("{name}.key"));
        let mut certtool = Command::new("certtool");
        certtool.args(["--generate-privkey", "--key-type=rsa", "--bits=2048"]);
        run(certtool.arg("--outfile").arg(key))?;
        let dir = self.path(name);
        fs::create_dir_all(&dir)?;
        if name != "ca" {
            fs::copy(self.path("ca.pem"), dir.join("ca-cert.pem"))?;
        }
        Ok(dir)
    }

    fn sign(&self, name: &str) -> Result<()> {
        let (certificate, key) = (self.path("ca.pem"), self.path("ca.key"));
        let (certificate, key) = (certificate.to_str(), key.to_str());
        let ca = ["--load-ca-certificate", certificate.context("UTF-8")?];
        let ca_key = ["--load-ca-privkey", key.context("UTF-8")?];
        self.make(
            name,
            &[&["--generate-certificate"], &ca[..], &ca_key].concat(),
        )
    }

    fn make(&self, name: &str, arguments: &[&str]) -> Result<()> {
        let mut certtool = Command::new("certtool");
        certtool
            .args(arguments)
            .arg("--template")
            .arg(self.path(&format!("{name}.template")));
        certtool
            .arg("--load-privkey")
            .arg(self.path(&format!("{name}.key")));
        run(certtool
            .arg("--outfile")
            .arg(self.path(&format!("{name}.pem"))))
        .map(drop)
    }
}
