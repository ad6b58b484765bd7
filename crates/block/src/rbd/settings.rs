//! Options that the image or its pool may set, which replace those of this client.

use super::address::RbdAddress;
use super::cluster::OPTIONS;
use super::librbd::{Setting, SettingSource, image::Image};
use std::io::{self, ErrorKind};

/// Refuses an image for which librbd does not use the options of this client.
///
/// # Errors
/// The option, and the command that removes it; the cluster's.
pub fn check(address: &RbdAddress, image: &Image) -> io::Result<()> {
    match image.settings()?.iter().find(|setting| is_unsafe(setting)) {
        None => Ok(()),
        Some(setting) => Err(io::Error::new(
            ErrorKind::Unsupported,
            refusal(address, setting),
        )),
    }
}

fn is_unsafe(setting: &Setting) -> bool {
    OPTIONS
        .iter()
        .any(|(option, needed)| *option == setting.option && *needed != Some(&setting.value))
}

fn refusal(address: &RbdAddress, setting: &Setting) -> String {
    let (image, pool) = (address.image_spec(), &address.pool);
    let Setting { option, value, .. } = setting;
    let (place, command) = match setting.source {
        SettingSource::Image => ("image", format!("rbd config image rm {image} {option}")),
        SettingSource::Pool => ("pool", format!("rbd config pool rm {pool} {option}")),
    };
    format!(
        "the {place} sets {option} to `{value}`, with which writes could be lost or a host that was taken over \
         could write; `{command}` removes that"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_changes_nothing_is_accepted() {
        let setting = |option: &str, value: &str| Setting {
            option: option.to_owned(),
            value: value.to_owned(),
            source: SettingSource::Pool,
        };
        for (option, value, refused) in [
            ("rbd_cache", "true", true),
            ("rbd_cache", "false", false),
            ("rbd_cache_size", "1", false),
            ("rbd_blocklist_on_break_lock", "true", true),
            ("rbd_blocklist_on_break_lock", "false", true),
            ("rbd_blocklist_expire_seconds", "1", true),
            ("rbd_plugins", "pwl_cache", true),
        ] {
            assert_eq!(is_unsafe(&setting(option, value)), refused, "{option}");
        }
        let address = RbdAddress::parse("rbd:p/n/a").unwrap();
        let why = refusal(&address, &setting("rbd_cache", "true"));
        assert!(why.contains("`rbd config pool rm p rbd_cache`"), "{why}");
    }
}
