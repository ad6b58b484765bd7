//! The model test, with images on servers; `UEXT4_MODEL_RUNS` sets how many.

#[cfg(any(feature = "rbd", feature = "s3"))]
use uext4_testkit::ceph::is_client;
use uext4_testkit::prelude::*;
use uext4_testkit::remote_image::{RemoteImage, Server};
use uext4_testkit::workload::remounts_on;

fn reftest(server: Server) {
    for seed in 0..env_number("UEXT4_MODEL_RUNS", 2) {
        let shape = Shape::ALL[(seed % 5) as usize];
        let made = shape.make().expect("an image");
        let image = require!(some RemoteImage::new(server, made.len()).unwrap());
        image.put(&made).expect("it is written");
        let device = image.open(&OpenOptions::read_write()).expect("it opens");
        remounts_on(device, seed, shape)
            .unwrap_or_else(|e| panic!("{server:?}, seed {seed}, {}: {e:#}", shape.name));
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("export");
        image.export(&file).expect("it is exported");
        oracle::fsck(&file).unwrap();
    }
}

#[test]
#[ignore = "takes long; make test-remote runs it"]
fn remote_nbd_over_tcp() {
    reftest(Server::NbdTcp);
}

#[test]
#[ignore = "takes long; make test-remote runs it"]
fn remote_nbd_over_a_socket() {
    reftest(Server::NbdSocket);
}

#[cfg(feature = "rbd")]
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn remote_rbd() {
    require!(is_client("remote_models::remote_rbd"));
    reftest(Server::Rbd);
}

#[cfg(feature = "s3")]
#[test]
#[ignore = "needs Ceph; make test-remote runs it"]
fn remote_s3() {
    require!(is_client("remote_models::remote_s3"));
    reftest(Server::S3);
}
