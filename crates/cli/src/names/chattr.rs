use super::Program; pub fn run(_p:&Program)->anyhow::Result<u8>{ anyhow::bail!("todo") }
