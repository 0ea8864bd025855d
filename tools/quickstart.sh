#!/usr/bin/env bash
# ===- quickstart.sh - From a fresh clone to a trained model -----------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
#
# Installs the dependencies, builds the compiler, compiles examples/tiny-gpt2 and
# trains it on the English prose of Perl's manuals, one byte per token. All output is
# under build/quickstart. When run again, it repeats only the training.
#
# ===-----------------------------------------------------------------------=== #
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (($#)); then
  [[ $1 == --help || $1 == -h ]] && exec echo "usage: tools/quickstart.sh     sets up, builds, trains a small model"
  echo "quickstart.sh: unknown argument '$1' (see --help)" >&2
  exit 2
fi

work=build/quickstart
text=$work/text

if [[ -t 1 ]]; then
  bold=$'\e[1m' plain=$'\e[0m'
else
  bold='' plain=''
fi

# Prints the title of the next section.
headline() { printf '\n%s== %s%s\n' "$bold" "$1" "$plain"; }

# Prints a command as typed in a shell, then runs it.
show_and_run() {
  local word line='$'
  for word in "$@"; do
    [[ $word == *' '* ]] && word="'$word'"
    line+=" $word"
  done
  printf '%s\n' "$line"
  "$@"
}

# Prints every hundredth step only; a terminal shows a progress bar instead.
fewer_lines() {
  if [[ -t 1 ]]; then cat; else awk '!/^step / || $2 ~ /^(1|[0-9]*00)\// { print; fflush() }'; fi
}

# Unpacks Perl's manuals under $1 without installing their Debian package.
fetch_manuals() {
  mkdir -p "$1"
  local download=(apt-get -qq -o APT::Sandbox::User=root download perl-doc)
  if ! (cd "$1" && "${download[@]}" 2>/dev/null); then
    echo "-- updating the package lists"
    if ((EUID == 0)); then apt-get -qq update; else sudo apt-get -qq update; fi
    (cd "$1" && "${download[@]}")
  fi
  dpkg-deb --extract "$1"/perl-doc_*.deb "$1"
}

headline "Set up"
bash tools/setup.sh

headline "Build the compiler"
bash tools/build.sh kilnc
echo "-- build/bin/kilnc is up to date"

headline "Get English text"
if [[ ! -s $text/val.txt ]]; then
  echo "-- downloading the Debian package perl-doc"
  rm -rf "$text" && mkdir -p "$text"
  fetch_manuals "$text/package"
  python3 tools/english_text.py "$text/package" --train="$text/train.txt" --val="$text/val.partial"
  rm -rf "$text/package"
  mv "$text/val.partial" "$text/val.txt"
fi
echo "-- $text/train.txt: $(stat -c %s "$text/train.txt") bytes to train on, the prose of Perl's manuals"
echo "-- $text/val.txt: $(stat -c %s "$text/val.txt") bytes to validate on"

headline "Compile the model"
model=(examples/tiny-gpt2 --batch=8 --seq=128)
show_and_run build/bin/kilnc "${model[@]}" -o "$work/train"

headline "Memory plan: the memory use of training, known before it starts"
printf '$ build/bin/kilnc %s --emit=plan | tools/show_plan.py\n' "${model[*]}"
build/bin/kilnc "${model[@]}" --emit=plan | python3 tools/show_plan.py

headline "Train"
rm -rf "$work/checkpoints" "$work/log.jsonl"
training=("$work/train" --data="$text/train.txt" --val-data="$text/val.txt" --shuffle=1 --steps=1000
  --lr=2e-3 --lr-schedule=cosine --warmup-steps=100 --save="$work/checkpoints" --log="$work/log.jsonl")
if [[ -t 1 ]]; then
  show_and_run "${training[@]}"
else
  show_and_run "${training[@]}" | fewer_lines
fi

headline "Has it learned?"
loss=$(python3 -c '
import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
print("%.4f" % [e["loss"] for e in events if e.get("event") == "eval"][-1])' "$work/log.jsonl")
bigram=$(python3 tools/bigram_entropy.py "$text/train.txt")
echo "  validation loss                   $loss nats per byte"
echo "  bigram entropy of the text        $bigram nats per byte, the minimum for a model of one previous byte"
if ! awk -v loss="$loss" -v bigram="$bigram" 'BEGIN { exit !(loss < bigram) }'; then
  echo "quickstart.sh: the validation loss is not below the bigram entropy; please report this as a kiln bug" >&2
  exit 1
fi

headline "Write something"
show_and_run "$work/train" --resume="$work/checkpoints" --generate=300 --temperature=0.7 --prompt="The function returns"

cat <<END
${bold}
== Done in $((SECONDS / 60)) min $((SECONDS % 60)) s${plain}
The executable is $work/train; its weights are in $work/checkpoints, as safetensors. Try:

  $work/train --help                          every flag of the executable
  $work/train --describe                      compile options and memory plan
  $work/train --check-memory                  checks that memory is used as planned
  $work/train --data=$text/train.txt --resume=$work/checkpoints --save=$work/checkpoints --steps=2000
                                                        more training; other flags keep their values
  build/bin/kilnc examples/tiny-llama -o llama          another model
  build/bin/kilnc examples/tiny-gpt2 --emit=forward     the model as the compiler sees it

docs/use/getting-started.md continues from here.
END
