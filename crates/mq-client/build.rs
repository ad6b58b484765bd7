//! The name by which programs find the shared library: its number is that of the ABI, which is that of mq_open(3).

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libuext4_mq.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
