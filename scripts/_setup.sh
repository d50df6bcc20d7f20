# Sourced by the other scripts: makes .venv with the pinned versions, once, and again only when they change.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
stamp=.venv/.installed-for
wanted="$PWD $(cat pyproject.toml constraints.txt | cksum)"

find_python() {
    local name
    for name in "${PYTHON:-}" python3.11 python3 python3.12 python3.13 python3.14 python; do
        if [ -n "$name" ] && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "Python 3.11 or later must be on PATH (or named by \$PYTHON); found none" >&2
    return 1
}

make_venv() {
    local python
    python=$(find_python)
    # Some systems ship venv without ensurepip; the pip that is there can fill the gap.
    "$python" -m venv --clear .venv 2>/dev/null ||
        { "$python" -m venv --clear --without-pip .venv && "$python" -m pip --python .venv/bin/python install -q pip; }
}

install() { # only errors are worth reading; -qq keeps warnings about unused indexes away
    .venv/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt "$@"
}

if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || ! [ -x .venv/bin/python ]; then
    echo "Setting up .venv: some minutes the first time, nothing to do after that."
    .venv/bin/python -m pip --version >/dev/null 2>&1 || make_venv
    torch=$(grep '^torch==' constraints.txt)
    echo "  $torch"
    install "$torch"
    echo "  fedpace and everything else in constraints.txt"
    install -e '.[dev]'
    echo "$wanted" >"$stamp"
fi
