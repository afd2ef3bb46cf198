//! Links the program to be small.

use std::path::Path;
use std::process::Command;

fn main() {
    if packs_relocations() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    if folds_code() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

/// Returns whether the program may have its relocations packed, which saves 3 % of it: the
/// loader of glibc reads them from 2.36 on, and what is built here runs with no older one.
fn packs_relocations() -> bool {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    if of("PROFILE") != "release"
        || of("CARGO_CFG_TARGET_ENV") != "gnu"
        || of("HOST") != of("TARGET")
    {
        return false;
    }
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    // `glibc 2.36`
    let text = text.unwrap_or_default();
    let minor = text
        .trim()
        .strip_prefix("glibc 2.")
        .and_then(|it| it.parse::<u32>().ok());
    minor.is_some_and(|minor| minor >= 36)
}

/// Returns whether functions of the same code may become one, which saves some 4 % of the
/// program: LLD does that, which rustup's toolchain has and links with unless it is told
/// otherwise. Nothing here compares the addresses of functions.
fn folds_code() -> bool {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let target = of("TARGET");
    let flags = of("CARGO_ENCODED_RUSTFLAGS");
    let other_linker = ["linker", "fuse-ld"].iter().any(|it| flags.contains(it));
    if of("PROFILE") != "release" || target != "x86_64-unknown-linux-gnu" || other_linker {
        return false;
    }
    let output = Command::new(of("RUSTC"))
        .args(["--print", "sysroot"])
        .output();
    output.is_ok_and(|it| {
        let root = String::from_utf8_lossy(&it.stdout).trim().to_owned();
        Path::new(&root)
            .join(format!("lib/rustlib/{target}/bin/gcc-ld/ld.lld"))
            .exists()
    })
}
