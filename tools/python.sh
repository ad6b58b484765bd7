#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it in an environment that has nothing else, where no Rust is found, and runs its tests.
# PROFILE is that of the build; PARQUET=1 tests with pandas, zarr, dask and a server of S3 too.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/build"
"$work/build/bin/pip" install -q 'maturin>=1.8,<2'
"$work/build/bin/maturin" build --profile "${PROFILE:-release}" -m bindings/python/Cargo.toml --out "$work/wheels"
python3 -m venv "$work/clean"
env PATH=/usr/bin:/bin "$work/clean/bin/pip" install -q "$work"/wheels/*.whl
(cd "$work" && env PATH=/usr/bin:/bin clean/bin/python -c 'import uext4; print("uext4", uext4.__version__)')
"$work/clean/bin/pip" install -q pytest fsspec ${PARQUET:+pandas pyarrow zarr 'dask[bag]' s3fs 'moto[server]'}
"$work/clean/bin/python" -m pytest -q -p no:cacheprovider bindings/python/tests
"$work/clean/bin/python" bindings/python/scaling.py
