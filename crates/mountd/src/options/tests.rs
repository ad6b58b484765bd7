//! Every option, and every refusal.

use super::*;

fn parse(list: &str) -> Options {
    Options::parse(&[list]).unwrap_or_else(|e| panic!("{list}: {e}"))
}

fn refusal(list: &str) -> String {
    match Options::parse(&[list]) {
        Ok(_) => panic!("{list} is taken"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn nothing_gives_the_defaults() {
    for list in ["", "defaults", ",,", "rw,exec,async,relatime"] {
        let options = parse(list);
        assert_eq!(options.open.mount, uext4::unstable::MountOptions::default());
        assert!(options.open.exclusive && !options.open.direct);
        assert!(options.nosuid && options.nodev && !options.noexec);
        assert!(options.allows_others(true) && !options.allows_others(false));
    }
}

#[test]
fn kernel_flags() {
    let options = parse("ro,nosuid,nodev,noexec,sync,dirsync");
    assert!(options.open.mount.read_only && options.nosuid && options.nodev);
    assert!(options.noexec && options.sync && options.dirsync);
    let trusted = parse("suid,dev");
    assert!(!(trusted.nosuid || trusted.nodev));
    let back = Options::parse(&["ro,nosuid,nodev,noexec", "rw,suid", "dev,exec"]).unwrap();
    assert!(!(back.open.mount.read_only || back.nosuid || back.nodev || back.noexec));
}

#[test]
fn times() {
    let atime = |list| parse(list).open.mount.atime;
    assert_eq!(atime("noatime"), AtimeUpdate::Never);
    let nodiratime = |list| parse(list).open.mount.nodiratime;
    assert!(nodiratime("nodiratime") && nodiratime("strictatime,nodiratime"));
    assert!(!nodiratime("nodiratime,diratime"));
    assert_eq!(atime("noatime,atime"), AtimeUpdate::Relative);
    assert_eq!(atime("noatime,relatime"), AtimeUpdate::Relative);
    assert_eq!(atime("strictatime"), AtimeUpdate::Strict);
    assert!(parse("lazytime").open.mount.lazytime);
    assert!(!parse("lazytime,nolazytime").open.mount.lazytime);
}

#[test]
fn journal_and_data() {
    let data = |list| parse(list).open.mount.data;
    assert_eq!(data("data=ordered"), Some(DataMode::Ordered));
    assert_eq!(data("data=writeback"), Some(DataMode::Writeback));
    assert_eq!(data("data=journal"), Some(DataMode::Journal));
    let commit = |list| parse(list).open.mount.commit_interval.as_secs();
    assert_eq!((commit("commit=30"), commit("commit=0")), (30, 5));
    for (list, on) in [
        ("nobarrier", false),
        ("barrier=0", false),
        ("nobarrier,barrier", true),
        ("nobarrier,barrier=1", true),
    ] {
        assert_eq!(parse(list).open.mount.barrier, on, "{list}");
    }
    for name in ["journal", "journal_path"] {
        let options = parse(&format!(r"{name}=/dev/with\,comma\\"));
        assert_eq!(options.open.journal, Some(r"/dev/with,comma\".into()));
    }
    for list in ["ro,noload", "norecovery,ro"] {
        assert!(parse(list).open.mount.noload);
    }
}

#[test]
fn errors_and_space() {
    let errors = |list| parse(list).open.mount.errors;
    assert_eq!(errors("errors=continue"), Some(ErrorsBehaviour::Continue));
    assert_eq!(
        errors("errors=remount-ro"),
        Some(ErrorsBehaviour::RemountRo)
    );
    assert_eq!(errors("errors=panic"), Some(ErrorsBehaviour::Panic));
    assert!(parse("discard").open.mount.discard);
    assert!(!parse("discard,nodiscard").open.mount.discard);
    assert!(!parse("dioread_lock").open.mount.dioread_nolock);
    assert!(
        parse("dioread_lock,dioread_nolock")
            .open
            .mount
            .dioread_nolock
    );
}

#[test]
fn variants_have_the_names_of_the_benchmarks() {
    for variant in IallocVariant::ALL {
        assert_eq!(
            parse(&format!("ialloc={variant}")).open.mount.ialloc,
            variant
        );
    }
    for variant in BallocVariant::ALL {
        let options = parse(&format!("balloc={variant}"));
        assert_eq!(options.open.mount.balloc, variant);
    }
    for variant in GenerationVariant::ALL {
        let options = parse(&format!("generation={variant}"));
        assert_eq!(options.open.mount.generation, variant);
    }
    for variant in IcacheVariant::ALL {
        assert_eq!(
            parse(&format!("icache={variant}")).open.mount.icache,
            variant
        );
    }
    for variant in DioLock::ALL {
        assert_eq!(
            parse(&format!("dio-lock={variant}")).open.mount.dio_lock,
            variant
        );
    }
    for variant in DirLockVariant::ALL {
        let options = parse(&format!("dir-lock={variant}"));
        assert_eq!(options.open.mount.dir_lock, variant);
    }
}

#[test]
fn front_end() {
    let options =
        parse("transport=uring,threads=3,writeback,direct,fsname=a=b,subtype=uext4,readahead=1M");
    assert_eq!(options.transport, TransportKind::Uring);
    assert_eq!(options.threads, Some(3));
    assert!(options.writeback && options.open.direct);
    assert_eq!(options.fs_name.as_deref(), Some("a=b"));
    assert_eq!(options.readahead, Some(1 << 20));
    assert_eq!(parse("transport=dev").transport, TransportKind::Dev);
    assert_eq!(
        parse("transport=dev,transport=auto").transport,
        TransportKind::Auto
    );
    let back = parse("writeback,nowriteback,direct,nodirect");
    assert!(!back.writeback && !back.open.direct);
    assert_eq!(parse("readahead=0").readahead, Some(0));
    assert_eq!(parse("readahead=128k").readahead, Some(128 << 10));
    assert_eq!(parse("").memory, None);
    assert_eq!(parse("memory=3G").memory, Some(3 << 30));
}

#[test]
fn others() {
    assert!(parse("allow_other").allows_others(false));
    assert!(!parse("noallow_other").allows_others(true));
}

#[test]
fn what_is_harmless_changes_nothing() {
    for (name, shape, _) in HARMLESS {
        if *shape != Shape::Valued {
            assert_eq!(
                parse(name).open.mount,
                parse("").open.mount,
                "{name} changes the mount"
            );
        } else {
            assert!(refusal(name).contains("needs a value"), "{name}");
        }
        if *shape != Shape::Plain {
            parse(&format!("{name}=1"));
        } else {
            assert!(refusal(&format!("{name}=1")).contains("takes no value"));
        }
    }
    parse("x-systemd.automount,x-gvfs-show,x-initrd.mount=1");
}

#[test]
fn what_is_refused_says_why() {
    for (name, why) in REFUSED {
        for option in [(*name).to_owned(), format!("{name}=1")] {
            let said = refusal(&option);
            assert_eq!(said, format!("option '{name}' is not supported: {why}"));
        }
    }
}

#[test]
fn no_name_is_in_two_tables() {
    let mut names: Vec<&str> = HARMLESS.iter().map(|(name, ..)| *name).collect();
    names.extend(REFUSED.iter().map(|(name, _)| *name));
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn unknown_options_and_wrong_values_are_named() {
    let said = refusal("rw,foo");
    assert_eq!(said, "unknown option 'foo'; see uext4 mount --help");
    assert_eq!(refusal("foo=1,rw"), said);
    assert!(refusal("inode_goal=12").starts_with("unknown option 'inode_goal'"));
    for option in [
        "data=odd",
        "errors=odd",
        "commit=-1",
        "commit=86401",
        "barrier=2",
        "ialloc=odd",
        "balloc=odd",
        "generation=odd",
        "icache=odd",
        "dio-lock=odd",
        "transport=odd",
        "threads=0",
        "threads=1025",
        "readahead=1G",
        "readahead=M",
        "memory=lots",
    ] {
        let (name, value) = option.split_once('=').unwrap();
        let said = refusal(option);
        let starts = format!("option '{name}': '{value}' is not allowed; give ");
        assert!(said.starts_with(&starts), "{said}");
        if option != "barrier=2" {
            let starts = format!("option '{name}' needs a value: give ");
            assert!(refusal(name).starts_with(&starts), "{}", refusal(name));
            assert!(refusal(&format!("{name}=")).starts_with(&starts));
        }
    }
    for name in ["ro", "noatime", "discard", "writeback", "noload"] {
        let said = refusal(&format!("{name}=1"));
        assert!(said.contains("takes no value"), "{said}");
    }
}

#[test]
fn noload_needs_ro() {
    assert!(refusal("noload").starts_with("option 'noload' needs 'ro'"));
    assert!(refusal("ro,noload,rw").starts_with("option 'noload' needs 'ro'"));
}

#[test]
fn a_backup_of_the_superblock_needs_ro() {
    assert_eq!(parse("ro,sb=32768").superblock, Some(32768));
    assert_eq!(parse("sb=1").superblock, None);
    assert!(refusal("sb=32768").starts_with("option 'sb' needs 'ro'"));
    assert!(refusal("ro,sb=0").contains("number of a block"));
}

#[test]
fn parts_and_owners() {
    let options = parse("offset=1M,sizelimit=4G,subdir=/srv,uid=1000,gid=0,umask=027");
    assert_eq!(
        (options.offset, options.size_limit),
        (1 << 20, Some(4 << 30))
    );
    assert_eq!(options.subdir, Some("/srv".into()));
    let ownership = options.ownership;
    assert_eq!((ownership.uid, ownership.gid), (Some(1000), Some(0)));
    assert_eq!((ownership.umask, ownership.fakeroot), (0o027, false));
    assert_eq!(parse("sizelimit=0").size_limit, None);
    assert!(!parse("fakeroot").allows_others(true));
    assert!(refusal("fakeroot,allow_other").contains("excludes"));
    for list in [
        "uid=me",
        "umask=8",
        "umask=1777",
        "offset=x",
        "uid=4294967295",
        "subdir=",
    ] {
        assert!(!refusal(list).is_empty(), "{list}");
    }
}

/// The names in the first column of the table that begins with a heading, and the last cell of their rows.
fn documented(heading: &str) -> Vec<(String, String)> {
    let text = include_str!("../../../../docs/SEMANTICS.md");
    let rows = text.lines().skip_while(|line| !line.starts_with(heading));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let names = rows.flat_map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let last = cells.last().unwrap().trim().to_owned();
        let names: Vec<&str> = cells[0].split('`').skip(1).step_by(2).collect();
        let names = names.into_iter().filter(|name| !name.contains(['.', '=']));
        names
            .map(|name| (name.to_owned(), last.clone()))
            .collect::<Vec<_>>()
    });
    names.collect()
}

#[test]
fn the_documents_tables_are_those_of_the_program() {
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let names_of = |heading| {
        documented(heading)
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    };
    let harmless = HARMLESS
        .iter()
        .map(|(name, ..)| (*name).to_owned())
        .collect();
    assert_eq!(sorted(names_of("| accepted,")), sorted(harmless));
    let why = |name: &str| {
        let documented = documented("| refused |");
        documented
            .into_iter()
            .find(|(n, _)| n == name)
            .map(|(_, why)| why)
    };
    for (name, reason) in REFUSED {
        assert_eq!(why(name).as_deref(), Some(*reason), "{name}");
    }
    assert_eq!(names_of("| refused |").len(), REFUSED.len());
    // Each option changes a field, or has a value.
    let supported = documented("| supported |");
    assert!(supported.len() > 40);
    for (name, remount) in supported {
        let values = [
            "1",
            "journal",
            "continue",
            "per-bucket",
            "uring",
            "exclusive",
            "global",
            "alone",
        ];
        let given = values.into_iter().map(|value| format!("{name}={value}"));
        let given = given
            .chain([name.clone()])
            .map(|option| format!("ro,{option}"));
        let is_known = |list: &String| !refusal_or_empty(list).starts_with("unknown");
        assert!(given.clone().all(|list| is_known(&list)), "{name}");
        let base = parse("noload,ro,data=ordered,dioread_lock,writeback,direct,noallow_other");
        let mut changes = given.filter_map(|list| Options::parse(&[&list]).is_ok().then_some(list));
        let is_fixed = |list: String| matches!(base.changed(&[list]), Err(OptionError::Fixed(_)));
        match &*remount {
            "yes" | "root" => assert!(!changes.any(is_fixed), "{name}"),
            _ => {}
        }
    }
}

fn refusal_or_empty(list: &str) -> String {
    Options::parse(&[list]).map_or_else(|e| e.to_string(), |_| String::new())
}

#[test]
fn words_for_mount_8_and_for_direct_access() {
    parse("X-gdu.hide,dax=never,dax=inode,loop=/dev/loop1");
    assert!(refusal("dax=always").contains("dax=never"));
    assert!(refusal("X-mount.mkdir=0755").contains("mount(8) does that"));
}
