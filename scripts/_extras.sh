# Sourced by `test --all`: what tests need beyond .venv, as far as this machine lets itself be given it.
# Nothing here is fatal: a test without its library or program is skipped, and says what it lacks.

system_packages=(chromium chromium-driver postgresql nginx openssh-client)

install_extras() { # one at a time: where one is not to be had, the others are
    local extra
    for extra in $(.venv/bin/python -c 'import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["project"]["optional-dependencies"])'); do
        [ "$extra" != flower ] || continue # it has an environment of its own
        echo "  fedpace[$extra]"
        install -e ".[$extra]" || echo "  fedpace[$extra] could not be installed; its tests are skipped"
    done
}

make_flower() { # flwr does not resolve with constraints.txt
    local stamp=.venv-flower/.installed-for wanted
    local install=(.venv-flower/bin/python -m pip install -qq --disable-pip-version-check -c constraints-flower.txt)
    wanted="$PWD $(cat pyproject.toml constraints-flower.txt | cksum)"
    [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || return 0
    echo "  .venv-flower"
    "$(find_python)" -m venv --clear .venv-flower &&
        "${install[@]}" "$(grep '^torch==' constraints-flower.txt)" &&
        "${install[@]}" -e '.[flower]' 'flwr[simulation]' pytest hypothesis &&
        echo "$wanted" >"$stamp"
}

test_flower() { # in that environment; where it cannot be made, the summary says so
    if make_flower; then
        step flower .venv-flower/bin/python -m pytest -m '' -rs tests/flower
    else
        results+=("flower   skipped: .venv-flower could not be made from constraints-flower.txt")
    fi
}

install_system_packages() { # a browser for the report's page, a server for the run store, a proxy
    local missing=() package
    for package in "${system_packages[@]}"; do
        dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "  ${missing[*]} can be installed by root with apt-get only; tests without them are skipped"
        return 0
    fi
    echo "  ${missing[*]}"
    apt_install "${missing[@]}" || { apt-get update -qq && apt_install "${missing[@]}"; } ||
        echo "  ${missing[*]} could not be installed; tests without them are skipped"
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
