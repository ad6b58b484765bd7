//! The topics of `uext4 help`: the guides of the documentation, as text for a terminal.

/// A guide.
pub struct Topic {
    /// The word of the command line.
    pub name: &'static str,
    /// What it is about, in a few words.
    pub about: &'static str,
    /// Markdown, with lines that fit a terminal.
    page: &'static str,
}

macro_rules! topics {
    ($($name:literal: $about:literal,)*) => {
        &[$(Topic {
            name: $name,
            about: $about,
            page: include_str!(concat!("../../../topics/", $name, ".md")),
        },)*]
    };
}

/// The guides, in the order in which a newcomer reads them.
pub const TOPICS: &[Topic] = topics! {
    "start": "the first ten commands",
    "building": "images from directories, archives and containers",
    "vm": "a virtual machine's image, without root",
    "untrusted": "an image from elsewhere",
    "mounting": "mounting without root",
    "patterns": "naming files in images",
    "scripting": "exit codes and JSON",
    "embedding": "in a program: Rust, Python, C, Go",
    "queues": "POSIX message queues",
    "servers": "images in S3, in Ceph and on NBD servers; many hosts",
    "locks": "what a lock costs",
    "settings": "environment variables and /etc/fstab",
    "metrics": "statistics, and Prometheus",
    "errors": "errors, with cause and remedy",
};

impl Topic {
    /// The page without its markup: headings bare, code indented.
    pub fn text(&self) -> String {
        let (mut text, mut in_code) = (String::new(), false);
        for line in self.page.lines() {
            if line.starts_with("```") {
                in_code = !in_code;
                continue;
            }
            let bare = match in_code || !line.starts_with('#') {
                true => line,
                false => line.trim_start_matches(['#', ' ']),
            };
            if in_code && !bare.is_empty() {
                text.push_str("  ");
            }
            text.push_str(bare);
            text.push('\n');
        }
        text
    }
}
