//! What `bench all` runs: the sections of its report, each one command.

use super::pair::{PairSpec, typed_image};
use super::runner::Locations;

/// How long the runs take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The length that good figures need: half an hour.
    Full,
    /// Three minutes.
    Quick,
    /// A blink each, for tests: figures mean nothing.
    Smoke,
}

impl Scale {
    /// What is for this scale.
    fn of(self, full: &str, quick: &str, smoke: &str) -> String {
        match self {
            Scale::Full => full.to_owned(),
            Scale::Quick => quick.to_owned(),
            Scale::Smoke => smoke.to_owned(),
        }
    }

    /// The same as a number.
    fn pick(self, full: u64, quick: u64, smoke: u64) -> u64 {
        match self {
            Scale::Full => full,
            Scale::Quick => quick,
            Scale::Smoke => smoke,
        }
    }
}

/// Stands in a section's words for the image that ours uses.
pub const IMAGE: &str = "{image}";
/// Stands in a section's words for the directory where the kernel has mounted its image.
pub const PEER: &str = "{peer}";
/// Stands in a section's words for the directory where images in memory are.
pub const MEMORY: &str = "{memory}";

/// One run of a workload.
#[derive(Clone, Debug)]
pub struct Section {
    /// In `--only`, in the report, and in comparisons.
    pub name: &'static str,
    /// The words after `uext4 bench`.
    words: String,
    /// Two images that the run needs, one of them mounted by the kernel.
    pub pair: Option<PairSpec>,
    /// A device that the run can't do without.
    pub device: Option<&'static str>,
}

impl Section {
    fn new(name: &'static str, words: String) -> Section {
        Section {
            name,
            words,
            pair: None,
            device: None,
        }
    }

    fn beside_kernel(self, pair: PairSpec) -> Section {
        Section {
            pair: Some(pair),
            ..self
        }
    }

    fn with_device(self, device: &'static str) -> Section {
        Section {
            device: Some(device),
            ..self
        }
    }

    /// The words after `uext4 bench`, with what stands for each of the names in them.
    pub fn words(&self, names: &[(&str, &str)]) -> Vec<String> {
        let filled = |word: &str| {
            let fill = |word: String, (name, value): &(&str, &str)| word.replace(name, value);
            names.iter().fold(word.to_owned(), fill)
        };
        self.words.split_whitespace().map(filled).collect()
    }

    /// The command as a user would type it.
    pub fn command(&self, locations: &Locations) -> String {
        let image = self
            .pair
            .as_ref()
            .map(|pair| typed_image(locations.of(pair)));
        let (image, memory) = (image.unwrap_or_default(), &locations.memory);
        let (image, memory) = (image.to_string_lossy(), memory.to_string_lossy());
        let typed = [(IMAGE, &*image), (PEER, "/mnt"), (MEMORY, &*memory)];
        format!("uext4 bench {}", self.words(&typed).join(" "))
    }
}

/// Every section, in the order of the report. Peers of the kernel that need root are there with `root`.
pub fn sections(scale: Scale, root: bool) -> Vec<Section> {
    let mut all = inode_allocation(scale);
    all.extend(generations_and_cache(scale));
    all.extend(direct_io(scale));
    all.extend(namespaces_and_queues(scale, root));
    all.extend(durability_and_mounts(scale));
    all
}

fn inode_allocation(scale: Scale) -> Vec<Section> {
    let counts = scale.of("1,2,4,8,16,32,48", "1,2,4,8,16,32,48", "1,2,3");
    // So many of the most workers still fit into the inode cache, so that every count has the same work.
    let files = scale.pick(5000, 4000, 20);
    let slow_files = scale.pick(400, 80, 4);
    let rounds = scale.pick(5, 5, 2);
    let small = scale.of("", "", "--image-size 128M --journal-size 8M");
    let phases = "-F -C -r -u";
    let peer_counts = scale.of("1,4,16,48", "1,4,48", "2");
    let peer_files = scale.pick(30_000, 1500, 20);
    vec![
        Section::new(
            "mdtest",
            format!("mdtest --ialloc all --np {counts} -n {files} {phases} -i {rounds} --lock-stat {small}"),
        ),
        Section::new(
            "mdtest-delay",
            format!(
                "mdtest --ialloc all --journal-delay 50us --np {counts} -n {slow_files} {phases} -i {rounds} \
                 --lock-stat {small}"
            ),
        ),
        Section::new(
            "mdtest-kernel",
            format!(
                "mdtest --device file:{IMAGE} --peer {PEER} --np {peer_counts} -n {peer_files} {phases} -i {rounds}"
            ),
        )
        .beside_kernel(PairSpec {
            mib: scale.pick(6144, 1024, 128),
            journal_mib: scale.pick(1024, 256, 8),
            inodes: scale.pick(1_700_000, 100_000, 1000),
            ..PairSpec::default()
        }),
    ]
}

fn generations_and_cache(scale: Scale) -> Vec<Section> {
    let tasks = scale.of("1,2,4,8,16,32,64,128", "1,2,4,8,16,32,64,128", "1,2,3");
    let cache_tasks = scale.of("1,2,4,8,16,32", "1,2,4,8,16,32", "1,2,3");
    let time = scale.of("0.5", "0.05", "0.01");
    let rounds = scale.pick(7, 5, 2);
    // With one lock for the cache two CPUs may do less than one: rates jump more than others.
    let cache_time = scale.of("--time 0.5 -i 9", "--time 0.06 -i 7", "--time 0.01 -i 1");
    let peer_tasks = scale.of("1,2,4,8,16,32,64,128", "1,8,32,128", "1,2");
    let small = scale.of("", "", "--image-size 128M --journal-size 8M");
    let draws = scale.of("--time 0.3 -i 5", "--time 0.04 -i 3", "--time 0.01 -i 1");
    let repeats = scale.of(
        "",
        "--widths 8,16 --reuses 2^18",
        "--widths 8 --reuses 2^12",
    );
    vec![
        Section::new(
            "create-unlink",
            format!("create-unlink --generation all --tasks {tasks} --time {time} -i {rounds} --lock-stat {small}"),
        ),
        Section::new(
            "create-unlink-lazytime",
            format!(
                "create-unlink --icache all --lazytime off,on --tasks {cache_tasks} {cache_time} \
                 --lock-stat {small}"
            ),
        ),
        Section::new(
            "create-unlink-kernel",
            format!("create-unlink --device file:{IMAGE} --peer {PEER} --tasks {peer_tasks} --time {time} -i {rounds}"),
        )
        .beside_kernel(PairSpec {
            mib: scale.pick(2048, 1024, 128),
            journal_mib: scale.pick(512, 256, 8),
            ..PairSpec::default()
        }),
        Section::new("generation", format!("generation {draws} {repeats}")),
        Section::new(
            "icache-shrink",
            match scale {
                Scale::Full => "icache-shrink --items 1440000 --icache all".to_owned(),
                Scale::Quick => "icache-shrink --items 100000 --inodes-max 16384 --icache all -i 2".to_owned(),
                Scale::Smoke => format!("icache-shrink --items 2000 --inodes-max 256 -i 1 {small}"),
            },
        ),
    ]
}

fn direct_io(scale: Scale) -> Vec<Section> {
    let threads = scale.of("1,2,4,8,12,16,24", "1,2,4,8,12,16,24", "1,2,3");
    let time = scale.of("--time 0.5 -i 5", "--time 0.06 -i 3", "--time 0.01 -i 1");
    let model = "--device-latency 80us --device-parallelism 32 --dioread-nolock on,off";
    let file = scale.of("64M", "64M", "4M");
    let small = scale.of(
        "--journal-size 64M",
        "--journal-size 64M",
        "--journal-size 8M",
    );
    let peer_time = scale.of("--time 2 -i 5", "--time 0.2 -i 3", "--time 0.01 -i 1");
    let peer_file = scale.of("512M", "128M", "4M");
    vec![
        Section::new(
            "randrw",
            format!(
                "randrw {model} --dio-lock all --bs 4K --threads {threads} --size {file} {time} --lock-stat {small}"
            ),
        ),
        Section::new(
            "randrw-large",
            format!(
                "randrw {model} --dio-lock exclusive-first,shared-first --bs 1M --threads {threads} --size {file} \
                 {time} {small}"
            ),
        ),
        Section::new(
            "randrw-kernel",
            format!(
                "randrw --device file:{IMAGE} --peer {PEER}/data --dioread-nolock on --bs 4K,1M --threads 1,4,24 \
                 --size {peer_file} {peer_time}"
            ),
        )
        .beside_kernel(PairSpec {
            mib: scale.pick(2048, 1024, 128),
            journal_mib: scale.pick(256, 128, 8),
            options: "loop,dioread_nolock",
            ..PairSpec::default()
        }),
    ]
}

fn namespaces_and_queues(scale: Scale, root: bool) -> Vec<Section> {
    let live = scale.of("10,100,1000,10000,100000", "10,100,1000,10000", "10,100");
    let time = scale.of("--time 1 -i 3", "--time 0.1 -i 3", "--time 0.01 -i 1");
    let workers = scale.of("1,2,4,8,16,32", "1,2,4,8,16,32", "1,2,3");
    let queues = scale.of("1,4,32", "1,4,32", "1,2");
    let mounted = scale.of("--time 1 -i 5", "--time 0.2 -i 3", "--time 0.05 -i 1");
    let peer = if root { "--peer kernel" } else { "" };
    vec![
        Section::new(
            "clone",
            format!("clone --live {live} {time} --lock-stat {peer}"),
        ),
        Section::new(
            "clone-many",
            format!("clone --live 10,100000 --mqueue-super nodev,beyond {time}"),
        ),
        Section::new(
            "clone-workers",
            format!("clone --live 1000 --workers {workers} {time} --lock-stat"),
        ),
        Section::new(
            "mq",
            format!("mq --queues {queues} {time} --lock-stat {peer}"),
        ),
        Section::new(
            "mq-mounted",
            format!("mq --mounted --op stream,ping-pong --queues 1,4 {mounted} {peer}"),
        )
        .with_device("/dev/fuse"),
    ]
}

fn durability_and_mounts(scale: Scale) -> Vec<Section> {
    let threads = scale.of("1,2,4,8,16,32,48", "1,8,48", "1,2");
    let time = scale.of("--time 1 -i 3", "--time 0.3 -i 3", "--time 0.02 -i 1");
    let fuse = match scale {
        Scale::Full => "--time 3 -i 3 --files 8000",
        Scale::Quick => {
            "--workload create,randrw --threads 1,4 --time 0.3 -i 2 --files 1500 --size 64M --image-size 1G"
        }
        Scale::Smoke => {
            "--workload create,randrw --threads 1,2 --time 0.02 -i 1 --files 5 --clients 2 --size 4M --image-size 128M"
        }
    };
    vec![
        Section::new(
            "fsync",
            format!("fsync --device file:{IMAGE} --peer {PEER} --threads {threads} {time}"),
        )
        .beside_kernel(PairSpec {
            mib: scale.pick(1024, 512, 128),
            journal_mib: scale.pick(256, 128, 8),
            on_disk: true,
            ..PairSpec::default()
        }),
        Section::new("fuse", format!("fuse --dir {MEMORY} {fuse}")),
    ]
}
