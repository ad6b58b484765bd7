//! Changing a tree as options say.

use std::collections::BTreeMap;

use uext4_ondisk::{
    AclTag, FileType, XattrIndex, XattrList, XattrOwnedValue, acl_decode_disk, acl_encode_disk,
};

use super::contexts::Contexts;
use super::globs::{Builder, Globs};
use super::id_map::IdMap;
use super::manifest::Manifest;
use super::rule::{Rule, Target};
use super::xattr_lists::XattrLists;
use crate::error::{MkfsError, Result, shown_name};
use crate::options::MkfsOptions;
use crate::tree::{Kind, NodeId, Tree};

/// The set-group-id bit.
const SET_GID: u16 = 0o2000;
/// The revision of file capabilities that names the root of a user namespace, and the one before it: the words that begin them and
/// their bytes.
const CAPS_OF_NAMESPACE: (u8, usize) = (3, 24);
const CAPS: (u8, usize) = (2, 20);

/// Changes owners, attributes and labels of a tree.
///
/// # Errors
/// [`MkfsError::Option`], [`MkfsError::Line`], [`MkfsError::Tree`]: what the options name can't be, or can't be read; an owner
/// that no range has, with its file.
pub(crate) fn describe(
    options: &MkfsOptions,
    manifest: Option<&Manifest>,
    tree: &mut Tree,
) -> Result<()> {
    let mut lists = XattrLists::default();
    map_owners(options, tree, &mut lists)?;
    tree.set_owners(options);
    if let Some(manifest) = manifest {
        follow(manifest, tree, &mut lists)?;
    }
    if let Some(path) = &options.contexts {
        label(&Contexts::read(path)?, tree, &mut lists);
    }
    mark_fsverity(&options.fsverity, tree)
}

/// Marks the regular files that get fs-verity.
fn mark_fsverity(patterns: &[String], tree: &mut Tree) -> Result<()> {
    if patterns.is_empty() {
        return Ok(());
    }
    let globs = Globs::of_option("fsverity", patterns)?;
    let (mut marked, mut found) = (Vec::new(), Vec::new());
    let mut is_used = vec![false; patterns.len()];
    each_name(tree, |id, path| {
        if matches!(tree.node(id).kind, Kind::Regular(_)) {
            found.clear();
            globs.matches(path, &mut found);
            for i in &found {
                is_used[*i] = true;
                marked.push(id);
            }
        }
    });
    for (pattern, _) in patterns.iter().zip(is_used).filter(|(_, used)| !used) {
        let warning = format!("fsverity: no regular file matches {pattern}");
        tree.warnings.push(warning);
    }
    for id in marked {
        // One that a source has stays as it is there.
        tree.fsverity.entry(id).or_default();
    }
    Ok(())
}

/// Moves owners of the host into the image, in access control lists and file capabilities as well.
fn map_owners(options: &MkfsOptions, tree: &mut Tree, lists: &mut XattrLists) -> Result<()> {
    let uids = IdMap::new("map-uid", &options.map_uid)?;
    let gids = IdMap::new("map-gid", &options.map_gid)?;
    if uids.is_none() && gids.is_none() {
        return Ok(());
    }
    for id in tree.ids() {
        let missing = |tree: &Tree, kind: &str, owner: u32| {
            let option = if kind == "user" {
                "--map-uid"
            } else {
                "--map-gid"
            };
            tree.unfit(id, format!("{kind} {owner} is in no range of {option}"))
        };
        let map = |tree: &Tree, kind: &str, owner: u32| {
            let map = if kind == "user" { &uids } else { &gids };
            match map {
                Some(map) => map.inside(owner).ok_or_else(|| missing(tree, kind, owner)),
                None => Ok(owner),
            }
        };
        let attributes = tree.node(id).attributes;
        let is_made = tree.made.contains(&id);
        let (mut uid, mut gid) = (attributes.uid, attributes.gid);
        if !is_made {
            uid = map(tree, "user", uid)?;
        }
        // A directory that no source describes may have its group from the one above.
        if !is_made || attributes.mode & SET_GID != 0 {
            gid = map(tree, "group", gid)?;
        }
        let attributes = &mut tree.nodes[id.at()].attributes;
        (attributes.uid, attributes.gid) = (uid, gid);
        let Some(list) = XattrLists::of(tree, id).filter(|list| names_owners(list)) else {
            continue;
        };
        let mut changed = list.clone();
        for index in [XattrIndex::POSIX_ACL_ACCESS, XattrIndex::POSIX_ACL_DEFAULT] {
            let Some(mut entries) = value(list, index, b"").and_then(|v| acl_decode_disk(v).ok())
            else {
                continue;
            };
            for entry in &mut entries {
                match entry.tag {
                    AclTag::User => entry.id = map(tree, "user", entry.id)?,
                    AclTag::Group => entry.id = map(tree, "group", entry.id)?,
                    _ => {}
                }
            }
            entries.sort_by_key(|entry| (entry.tag, entry.id));
            let encoded = acl_encode_disk(&entries);
            changed.set(index, b"", XattrOwnedValue::Inline(encoded));
        }
        if let Some(caps) = value(list, XattrIndex::SECURITY, b"capability")
            && let Some((start, root)) = caps_of_namespace(caps)
        {
            let caps = caps_below(start, map(tree, "user", root)?);
            changed.set(
                XattrIndex::SECURITY,
                b"capability",
                XattrOwnedValue::Inline(caps),
            );
        }
        lists.replace(tree, id, changed);
    }
    Ok(())
}

fn value<'l>(list: &'l XattrList, index: XattrIndex, name: &[u8]) -> Option<&'l [u8]> {
    match &list.get(index, name)?.value {
        XattrOwnedValue::Inline(value) => Some(value),
        XattrOwnedValue::Inode { .. } => None,
    }
}

/// Whether attributes name users or groups.
fn names_owners(list: &XattrList) -> bool {
    let caps = value(list, XattrIndex::SECURITY, b"capability");
    list.get(XattrIndex::POSIX_ACL_ACCESS, b"").is_some()
        || list.get(XattrIndex::POSIX_ACL_DEFAULT, b"").is_some()
        || caps.is_some_and(|caps| caps_of_namespace(caps).is_some())
}

/// The capabilities that count below the root of a user namespace, and its number.
fn caps_of_namespace(caps: &[u8]) -> Option<(&[u8], u32)> {
    let (start, root) = caps.split_last_chunk()?;
    let is_one = caps.len() == CAPS_OF_NAMESPACE.1 && caps.get(3) == Some(&CAPS_OF_NAMESPACE.0);
    is_one.then_some((start, u32::from_le_bytes(*root)))
}

/// Capabilities below another root; those of root itself name none.
fn caps_below(start: &[u8], root: u32) -> Vec<u8> {
    let mut caps = start.to_vec();
    match root {
        0 => caps[3] = CAPS.0,
        _ => caps.extend(root.to_le_bytes()),
    }
    debug_assert!(matches!(caps.len(), len if len == CAPS.1 || len == CAPS_OF_NAMESPACE.1));
    caps
}

/// Calls `each` for all names, with their paths, those of a directory before those in it.
fn each_name(tree: &Tree, mut each: impl FnMut(NodeId, &[u8])) {
    each(NodeId::ROOT, b"");
    let mut dirs = vec![(NodeId::ROOT, Vec::new())];
    while let Some((dir, mut path)) = dirs.pop() {
        let len = path.len();
        for entry in tree.entries_of(dir) {
            if len > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(tree.bytes(entry.name));
            each(entry.node, &path);
            if tree.node(entry.node).is_dir() {
                dirs.push((entry.node, path.clone()));
            }
            path.truncate(len);
        }
    }
}

/// Gives files what the lines say that match one of their names, the last line last.
fn follow(manifest: &Manifest, tree: &mut Tree, lists: &mut XattrLists) -> Result<()> {
    let mut builder = Builder::new();
    let mut by_path: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
    for (i, rule) in manifest.rules.iter().enumerate() {
        match &rule.target {
            Target::Path(path) => by_path.entry(path).or_default().push(i),
            Target::Glob(glob) => builder
                .add(glob, i)
                .map_err(|e| manifest.wrong(rule, format!("`{glob}`: {}", e.kind())))?,
        }
    }
    let globs = builder.build();
    let globs = globs.map_err(|e| MkfsError::line(&manifest.path, 1, e.to_string()))?;
    let mut matched: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
    let mut found = Vec::new();
    each_name(tree, |id, path| {
        found.clear();
        globs.matches(path, &mut found);
        found.extend(by_path.get(path).into_iter().flatten());
        if !found.is_empty() {
            matched.entry(id).or_default().extend(&found);
        }
    });
    let mut is_used = vec![false; manifest.rules.len()];
    for (id, mut rules) in matched {
        rules.sort_unstable();
        rules.dedup();
        for i in rules {
            is_used[i] = true;
            give(&manifest.rules[i], tree, id, lists);
        }
    }
    for (rule, _) in manifest.rules.iter().zip(is_used).filter(|(_, used)| !used) {
        let name = match &rule.target {
            Target::Glob(glob) => shown_name(glob.as_bytes()),
            Target::Path(path) => shown_name(path),
        };
        let place = manifest.path.display();
        let warning = format!("{place}: line {}: nothing matches {name}", rule.line);
        tree.warnings.push(warning);
    }
    Ok(())
}

fn give(rule: &Rule, tree: &mut Tree, id: NodeId, lists: &mut XattrLists) {
    let is_symlink = matches!(tree.node(id).kind, Kind::Symlink(_));
    let attributes = &mut tree.nodes[id.at()].attributes;
    attributes.uid = rule.uid.unwrap_or(attributes.uid);
    attributes.gid = rule.gid.unwrap_or(attributes.gid);
    // Those of a symbolic link mean nothing, and are all set on Linux.
    if let Some(mode) = rule.mode.filter(|_| !is_symlink) {
        attributes.mode = attributes.mode & !0o7777 | mode;
    }
    if let Some(time) = rule.mtime {
        (attributes.atime, attributes.mtime, attributes.ctime) = (time, time, time);
    }
    for (index, name, value) in &rule.xattrs {
        lists.set(tree, id, *index, name, value.clone());
    }
}

/// Sets the label of each file that has one by its first name.
fn label(contexts: &Contexts, tree: &mut Tree, lists: &mut XattrLists) {
    for id in tree.ids() {
        let path = [b"/", &tree.relative_path(id)[..]].concat();
        let kind = FileType::from_mode(tree.node(id).attributes.mode);
        if let Some(label) = contexts.label(&path, kind) {
            lists.set(tree, id, XattrIndex::SECURITY, b"selinux", label.to_vec());
        }
    }
}
