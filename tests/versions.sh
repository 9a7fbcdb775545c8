#!/usr/bin/env bash
# Runs the tests that convert beside versions of coremltools, each in an environment of its own.
#
#   tests/versions.sh [VERSION...] [-- OPTIONS OF PYTEST]
#
# A version is one of the package index (9.0, 9.1.dev1), or a commit of coremltools' repository (main-e0e2f42), whose Python sources
# are laid over the newest package: its compiled libraries are those of that. COREMLTOOLS_REPOSITORY is where it is cloned from.
# Without versions: all that modellint has facts of. Environments are made below VERSIONS_FOLDER and kept.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${VERSIONS_FOLDER:-${TMPDIR:-/tmp}/modellint-versions}
repository=${COREMLTOOLS_REPOSITORY:-https://github.com/apple/coremltools}
newest=9.1.dev1
versions=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  versions+=("$1")
  shift
done
[ "${1:-}" = -- ] && shift
if [ ${#versions[@]} -eq 0 ]; then
  versions=(8.3.0 9.0 9.1.dev1 main-e0e2f42)
fi

make_environment() {
  local version=$1 place=$2 package=$1 commit=
  case $version in main-*) package=$newest commit=${version#main-} ;; esac
  rm -rf "$place"
  python3 -m venv "$place"
  "$place/bin/pip" install --quiet --disable-pip-version-check -e '.[dev]'
  "$place/bin/pip" install --quiet --disable-pip-version-check --no-deps "coremltools==$package"
  if [ -n "$commit" ]; then
    [ -d "$folder/coremltools" ] || git clone --quiet "$repository" "$folder/coremltools"
    local site
    site=$("$place/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
    # The package has files that its build makes: what the repository holds goes over them.
    git -C "$folder/coremltools" archive "$commit" coremltools | tar -xf - -C "$site"
  fi
  touch "$place/complete"
}

failed=()
mkdir -p "$folder"
for version in "${versions[@]}"; do
  place=$folder/$version
  [ -f "$place/complete" ] || make_environment "$version" "$place"
  echo "coremltools $version"
  PYTHONPATH=lint:rules "$place/bin/python" -m pytest -n auto tests/coreml tests/live/test_conversion.py "$@" || failed+=("$version")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed beside ${failed[*]}" >&2
  exit 1
fi
