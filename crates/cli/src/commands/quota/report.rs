//! Showing quotas.

use super::owner::{Owner, image_of, name_of, quotas};
use crate::accounts::Accounts;
use crate::images::Images;
use crate::size::Unit;
use crate::{show, time_format};
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use uext4::{OwnerQuota, QuotaKind, QuotaUsage, Quotas};

/// Show what each owner has and may have, as repquota(8) does
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    uext4 quota report -ug disk.img\n  \
    uext4 quota report --json disk.img | jq '.[0].owners[]'\n\n\
    A row has + where a soft limit is exceeded. Sizes are in KiB.")]
pub struct Args {
    /// Users; so it is without another
    #[arg(long, short)]
    user: bool,
    /// Groups
    #[arg(long, short)]
    group: bool,
    /// Projects
    #[arg(long, short = 'P')]
    project: bool,
    /// Owners without anything too
    #[arg(long, short = 'v')]
    verbose: bool,
    /// Numbers instead of names
    #[arg(long, short)]
    numeric: bool,
    /// Sizes such as 1.5K and 20M
    #[arg(long, short = 's', visible_short_alias = 'H')]
    human_readable: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// The image
    image: PathBuf,
}

/// Show what some owners have and may have, as quota(1) does
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 quota show disk.img user:1000 group:staff")]
pub struct ShowArgs {
    /// Sizes such as 1.5K and 20M
    #[arg(long, short = 's')]
    human_readable: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// The image
    image: PathBuf,
    /// user:NAME, group:NAME or project:NUMBER; names are those of the image's own /etc/passwd and /etc/group
    #[arg(required = true, value_name = "OWNER")]
    owners: Vec<Owner>,
}

#[derive(Serialize)]
struct Json {
    kind: &'static str,
    enforced: bool,
    space_grace_seconds: u64,
    inode_grace_seconds: u64,
    owners: Vec<OwnerJson>,
}

#[derive(Serialize)]
struct OwnerJson {
    id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    space: UsageJson,
    inodes: UsageJson,
}

#[derive(Serialize)]
struct UsageJson {
    used: u64,
    soft: u64,
    hard: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_ends: Option<String>,
}

pub fn run(args: &Args) -> Result<()> {
    let all = [
        (QuotaKind::User, args.user || !(args.group || args.project)),
        (QuotaKind::Group, args.group),
        (QuotaKind::Project, args.project),
    ];
    let mut images = Images::default();
    let image = images.get(&image_of(&args.image), false)?;
    let accounts = match args.numeric {
        true => Accounts::default(),
        false => Accounts::of(&*image),
    };
    let mut reports = Vec::new();
    for (kind, _) in all.into_iter().filter(|(_, wanted)| *wanted) {
        let mut report = quotas(&image, kind)?;
        if !args.verbose {
            report.owners.retain(|owner| !is_empty(owner));
        }
        reports.push(report);
    }
    print(&reports, &accounts, args.json, args.human_readable)?;
    drop(image);
    images.close()
}

pub fn run_show(args: &ShowArgs) -> Result<()> {
    let mut images = Images::default();
    let image = images.get(&image_of(&args.image), false)?;
    let accounts = Accounts::of(&*image);
    let mut reports = Vec::new();
    for kind in QuotaKind::ALL {
        let wanted = args.owners.iter().filter(|owner| owner.kind == kind);
        let ids: Vec<u32> = wanted
            .map(|owner| owner.id(&accounts))
            .collect::<Result<_>>()?;
        if ids.is_empty() {
            continue;
        }
        let mut report = quotas(&image, kind)?;
        report.owners.retain(|owner| ids.contains(&owner.id));
        reports.push(report);
    }
    print(&reports, &accounts, args.json, args.human_readable)?;
    drop(image);
    images.close()
}

/// Whether an owner has nothing and may have anything.
fn is_empty(owner: &OwnerQuota) -> bool {
    let nothing = |of: &QuotaUsage| (of.used, of.soft, of.hard) == (0, 0, 0);
    nothing(&owner.space) && nothing(&owner.inodes)
}

fn print(reports: &[Quotas], accounts: &Accounts, json: bool, human: bool) -> Result<()> {
    if json {
        let documents = reports.iter().map(|report| document(report, accounts));
        return show::json(&documents.collect::<Vec<_>>());
    }
    let unit = match human {
        true => Unit::Human(1024),
        false => Unit::Bytes(1024),
    };
    let mut out = std::io::stdout().lock();
    for (i, report) in reports.iter().enumerate() {
        let (kind, enforced) = (report.kind.name(), report.enforced);
        if i > 0 {
            writeln!(out)?;
        }
        writeln!(
            out,
            "{kind} quotas{}; grace time of space {}, of inodes {}",
            if enforced { ", enforced" } else { "" },
            time(report.space_grace.as_secs()),
            time(report.inode_grace.as_secs()),
        )?;
        writeln!(out, "{}", show::table(&table(report, accounts, unit)))?;
    }
    Ok(())
}

fn document(report: &Quotas, accounts: &Accounts) -> Json {
    let usage = |of: &QuotaUsage| UsageJson {
        used: of.used,
        soft: of.soft,
        hard: of.hard,
        grace_ends: of.grace_end.map(|end| time_format::utc(seconds(end))),
    };
    let owners = report.owners.iter().map(|owner| OwnerJson {
        id: owner.id,
        name: name_of(report.kind, owner.id, accounts).map(str::to_owned),
        space: usage(&owner.space),
        inodes: usage(&owner.inodes),
    });
    Json {
        kind: report.kind.name(),
        enforced: report.enforced,
        space_grace_seconds: report.space_grace.as_secs(),
        inode_grace_seconds: report.inode_grace.as_secs(),
        owners: owners.collect(),
    }
}

fn table(report: &Quotas, accounts: &Accounts, unit: Unit) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let owner = report.kind.name();
    let heads = ["used", "soft", "hard", "grace"];
    table.set_header(
        [owner, ""]
            .into_iter()
            .chain(heads)
            .chain(["inodes", "soft", "hard", "grace"]),
    );
    for owner in &report.owners {
        let name = name_of(report.kind, owner.id, accounts);
        let mut row = vec![
            name.map_or_else(|| owner.id.to_string(), str::to_owned),
            format!("{}{}", sign(&owner.space), sign(&owner.inodes)),
        ];
        row.extend(cells(&owner.space, |n| unit.of(n)));
        row.extend(cells(&owner.inodes, |n| n.to_string()));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn sign(of: &QuotaUsage) -> char {
    match of.soft != 0 && of.used > of.soft {
        true => '+',
        false => '-',
    }
}

fn cells(of: &QuotaUsage, number: impl Fn(u64) -> String) -> [String; 4] {
    let left = of.grace_end.map(|end| {
        let left = end.duration_since(SystemTime::now());
        left.map_or_else(|_| "over".to_owned(), |left| time(left.as_secs()))
    });
    let limit = |n: u64| match n {
        0 => "-".to_owned(),
        n => number(n),
    };
    [
        number(of.used),
        limit(of.soft),
        limit(of.hard),
        left.unwrap_or_default(),
    ]
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// A time in days, or in hours and minutes.
fn time(seconds: u64) -> String {
    match seconds {
        172_800.. => format!("{}d", seconds.div_ceil(86_400)),
        60.. => format!("{}:{:02}", seconds / 3600, seconds / 60 % 60),
        _ => format!("{seconds}s"),
    }
}
