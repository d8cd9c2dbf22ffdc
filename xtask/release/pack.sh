#!/usr/bin/env bash
# Makes the packages of one platform around $PROGRAM into $OUT. `cargo xtask release` sets the variables in capitals.
set -euo pipefail
trap 'echo "error: release: line $LINENO: $BASH_COMMAND" >&2' ERR

made=()
missing=0
staged=$WORK/$NAME
mkdir -p "$OUT" "$staged/completions"

# Whether a tool is here. If not, what it makes is missing.
has() {
    command -v "$1" >/dev/null && return
    echo "error: release: $1 is not on the PATH; it makes $2" >&2
    missing=1
    return 1
}

# A program of tests has symbols. Where they cannot be removed, they stay.
[ "$(uname)" = Linux ] && strip -o "$staged/loopgate" "$PROGRAM" 2>/dev/null || cp "$PROGRAM" "$staged/loopgate"
for shell in bash zsh fish elvish powershell; do
    "$staged/loopgate" completions "$shell" >"$staged/completions/loopgate.$shell"
done
"$staged/loopgate" man --out "$staged/man" 2>"$WORK/man.txt" || { cat "$WORK/man.txt" >&2 && false; }
cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$staged"

tar -c -C "$WORK" "$NAME" | gzip "-$LEVEL" >"$OUT/$NAME.tgz"
made+=("$NAME.tgz")

if [ "$DEBIAN" != - ] && has dpkg-deb "the package for Debian"; then
    usr=$WORK/debian/usr
    mkdir -p "$WORK/debian/DEBIAN" "$usr/bin" "$usr/share/man" "$usr/share/doc/loopgate" \
        "$usr"/share/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
    cp "$staged/loopgate" "$usr/bin"
    cp -r "$staged/man" "$usr/share/man/man1"
    cp "$staged/completions/loopgate.bash" "$usr/share/bash-completion/completions/loopgate"
    cp "$staged/completions/loopgate.zsh" "$usr/share/zsh/vendor-completions/_loopgate"
    cp "$staged/completions/loopgate.fish" "$usr/share/fish/vendor_completions.d"
    cat LICENSE-MIT LICENSE-APACHE >"$usr/share/doc/loopgate/copyright"
    libc=
    [ "$LIBC" = static ] || libc=$(getconf GNU_LIBC_VERSION)
    cat >"$WORK/debian/DEBIAN/control" <<END
Package: loopgate
Version: ${VERSION/-/\~}
Architecture: $DEBIAN
Maintainer: Loopgate <loopgate@users.noreply.github.com>
Installed-Size: $(du -sk "$usr" | cut -f1)${libc:+
Depends: libc6 (>= ${libc#glibc }), libgcc-s1}
Section: utils
Priority: optional
Homepage: $REPOSITORY
Description: $DESCRIPTION
END
    name=loopgate_${VERSION/-/\~}_$DEBIAN.deb
    dpkg-deb --root-owner-group -Zgzip "-z$LEVEL" --build "$WORK/debian" "$OUT/$name" >/dev/null
    made+=("$name")
fi

if has python3 "the wheel"; then
    # `0.2.0-rc.1` is `0.2.0rc1` on PyPI, where another project has the name loopgate.
    stem=loopgate_cli-${VERSION/-*/}$([[ $VERSION != *-* ]] || tr -d . <<<"${VERSION#*-}")
    about=$WORK/wheel/$stem.dist-info
    mkdir -p "$about/licenses" "$WORK/wheel/$stem.data/scripts"
    cp "$staged/loopgate" "$WORK/wheel/$stem.data/scripts"
    cp LICENSE-MIT LICENSE-APACHE "$about/licenses"
    printf 'Wheel-Version: 1.0\nGenerator: loopgate\nRoot-Is-Purelib: false\nTag: py3-none-%s\n' "$WHEEL" >"$about/WHEEL"
    cat - crates/loopgate/README.md >"$about/METADATA" <<END
Metadata-Version: 2.4
Name: loopgate-cli
Version: ${stem#*-}
Summary: $DESCRIPTION
License-Expression: $LICENSE
License-File: LICENSE-MIT
License-File: LICENSE-APACHE
Project-URL: Repository, $REPOSITORY
Description-Content-Type: text/markdown

END
    python3 xtask/release/wheel.py "$WORK/wheel" "$OUT/$stem-py3-none-$WHEEL.whl" "$LEVEL"
    made+=("$stem-py3-none-$WHEEL.whl")
fi

# Packs a package for npm: its name, its file, and the members of its manifest that it has alone.
npm_package() {
    local stem=${1/#@/}
    stem=${stem/\//-}
    mkdir -p "$WORK/npm/$stem"
    cp "$2" crates/loopgate/README.md LICENSE-MIT LICENSE-APACHE "$WORK/npm/$stem"
    cat >"$WORK/npm/$stem/package.json" <<END
{
  "name": "$1", "version": "$VERSION", "description": "$DESCRIPTION", "license": "$LICENSE",
  "repository": { "type": "git", "url": "git+$REPOSITORY.git" },
  $3
}
END
    npm pack --silent --pack-destination "$OUT" "$WORK/npm/$stem" >/dev/null
    made+=("$stem-$VERSION.tgz")
}
if has npm "the packages for npm"; then
    # One has the program, for its platform alone, and one for all platforms chooses it.
    npm_package "@loopgate/$NODE" "$staged/loopgate" "\"os\": [\"${NODE%-*}\"], \"cpu\": [\"${NODE#*-}\"]"
    chosen=$(printf '"@loopgate/%s": "'"$VERSION"'", ' $NODES)
    npm_package loopgate xtask/release/loopgate.js \
        "\"bin\": { \"loopgate\": \"loopgate.js\" }, \"optionalDependencies\": { ${chosen%, } }"
fi

# The crates of the program, in the form of CycloneDX.
if ! cargo cyclonedx --version >/dev/null 2>&1 && [ "$LEVEL" = 9 ]; then cargo install --locked cargo-cyclonedx; fi
if cargo cyclonedx --version >/dev/null 2>&1; then
    cargo cyclonedx --quiet --manifest-path crates/loopgate/Cargo.toml --format json --target "$TARGET" \
        --no-default-features --features "$FEATURES" --override-filename "$NAME.cdx"
    cp "crates/loopgate/$NAME.cdx.json" "$OUT"
    # There is one beside the manifest of each crate of the workspace.
    rm -f crates/*/"$NAME.cdx.json" xtask/"$NAME.cdx.json"
    made+=("$NAME.cdx.json")
else
    echo "left out: the bill of materials, for cargo-cyclonedx is not installed"
fi

# The folder of the image, which has a place for each processor.
authorities=/etc/ssl/certs/ca-certificates.crt
if [ "$DEBIAN" != - ] && [ "$LIBC" = static ] && [ -f "$authorities" ]; then
    mkdir -p "$OUT/image/$DEBIAN" "$OUT/image/state"
    cp "$staged/loopgate" "$OUT/image/$DEBIAN"
    cp "$authorities" xtask/release/Containerfile "$OUT/image"
    echo "The journal of Loopgate's runs is in this folder." >"$OUT/image/state/README"
    echo image/Containerfile
elif [ "$DEBIAN" != - ]; then
    echo "left out: the folder of the image, which takes $authorities and a static program (\`rustup target add ${TARGET/-gnu/-musl}\`, and Debian's musl-tools)"
fi

sums=$(command -v sha256sum || echo shasum -a 256)
(cd "$OUT" && $sums "${made[@]}" >SHA256SUMS)
printf '%s\n' "${made[@]}" SHA256SUMS
echo "release: the files are in $OUT"
exit "$missing"
