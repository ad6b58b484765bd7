//! The name by which programs find the shared library: its major version is that of the ABI, `abi.txt`.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libuext4.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
