//! The memory of this process, as the kernel counts it.

/// Bytes that are resident now.
pub fn resident_bytes() -> u64 {
    status_bytes("VmRSS:")
}

/// The most bytes that ever were resident.
pub fn peak_resident_bytes() -> u64 {
    status_bytes("VmHWM:")
}

/// Bytes that the machine could still give.
pub fn available_bytes() -> u64 {
    kib_of("/proc/meminfo", "MemAvailable:")
}

fn status_bytes(key: &str) -> u64 {
    kib_of("/proc/self/status", key)
}

/// Of a file with lines `key 123 kB`; 0 where there is none.
fn kib_of(path: &str, key: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_process_has_memory() {
        assert!(super::resident_bytes() > 1 << 16);
        assert!(super::peak_resident_bytes() >= 1 << 16);
        assert!(super::available_bytes() > 1 << 20);
    }
}
