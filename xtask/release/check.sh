#!/usr/bin/env bash
# Installs each package of $OUT into an empty folder and runs its first commands. `cargo xtask release --check` sets the
# variables in capitals.
set -euo pipefail
trap 'echo "error: release: the check failed at line $LINENO: $BASH_COMMAND" >&2' ERR

roots=$WORK/check
mkdir -p "$roots"/{archive,debian,wheel,npm}

expect() {
    local file
    for file; do
        [ -f "$file" ] || { echo "error: release: $file is missing" >&2 && exit 1; }
    done
}

# What the README begins with, for a user who has nothing but the program.
first_commands() {
    local kind=$1 program=$2 home=$roots/$1-home version
    mkdir "$home"
    cd "$home"
    own() { env -i PATH="$PATH" HOME="$home" "$program" "$@" 2>errors || { cat errors >&2 && false; }; }
    version=$(own --version)
    [ "$version" = "loopgate $VERSION" ]
    own init my-desk --yes >/dev/null
    own run my-desk "$(ls my-desk/items/* | head -n 1)" | grep '^## ' >/dev/null
    cd - >/dev/null
    echo "release: $kind: $version made a domain and ran it"
}

(cd "$OUT" && $(command -v sha256sum || echo shasum -a 256) --check SHA256SUMS >/dev/null)

tar -xzf "$OUT/$NAME.tgz" -C "$roots/archive"
expect "$roots/archive/$NAME"/{man/loopgate.1,completions/loopgate.zsh,LICENSE-MIT}
first_commands archive "$roots/archive/$NAME/loopgate"
# `cargo binstall` finds the archive, and the program in it, by [package.metadata.binstall] of crates/loopgate/Cargo.toml.
expect "$OUT/${BINSTALL_URL##*/}" "$roots/archive/$BINSTALL_BIN"

if [ "$DEBIAN" != - ]; then
    dpkg-deb --extract "$OUT"/*_"$DEBIAN.deb" "$roots/debian"
    share=$roots/debian/usr/share
    expect "$share"/{man/man1/loopgate-run.1,bash-completion/completions/loopgate,doc/loopgate/copyright}
    first_commands debian "$roots/debian/usr/bin/loopgate"
fi

python3 -m venv "$roots/wheel"
"$roots/wheel/bin/pip" install --quiet --disable-pip-version-check --no-index "$OUT"/*"$WHEEL.whl"
first_commands wheel "$roots/wheel/bin/loopgate"

# Nothing is asked of the registry: the packages of other platforms are optional.
npm install --silent --offline --no-audit --no-fund --prefix "$roots/npm" "$OUT/loopgate-$NODE-$VERSION.tgz" "$OUT/loopgate-$VERSION.tgz"
first_commands npm "$roots/npm/node_modules/.bin/loopgate"

if [ -f "$OUT/$NAME.cdx.json" ]; then
    grep '"loop-core"' "$OUT/$NAME.cdx.json" >/dev/null
fi
if [ "$DEBIAN" != - ] && [ "$LIBC" = static ]; then
    first_commands image "$OUT/image/$DEBIAN/loopgate"
fi
echo "release: each package was installed and ran"
