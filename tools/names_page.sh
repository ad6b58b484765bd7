#!/usr/bin/env bash
# Prints the manual page of a name of e2fsprogs, as uext4 is it: the usage that the command prints, and what docs/NAMES.md says of the name.
# usage: names_page.sh COMMAND NAME
set -euo pipefail
command=$1
name=$2
names=$(dirname "$0")/../docs/NAMES.md
section=8
case $name in chattr | lsattr | fuse2fs) section=1 ;; esac
# A wrong option is answered with the usage; e2label, which has no options, with none.
usage=$( (exec -a "$name" "$command" '-?') 2>&1 </dev/null | awk '/[Uu]sage:/ { on = 1; sub(/.*[Uu]sage: */, "") } on && /^$/ { exit } on' || true)
awk -v name="$name" -v section="$section" -v usage="${usage:-$name device [label]}" '
# Text of a list or table as roff: code is bold, and its hyphens are those that a shell takes.
function roff(text,    parts, count, i, out) {
  gsub(/\\/, "\\e", text)
  count = split(text, parts, "`")
  for (i = 1; i <= count; i++) {
    if (i % 2 == 0) { gsub(/-/, "\\-", parts[i]); parts[i] = "\\fB" parts[i] "\\fR" }
    out = out parts[i]
  }
  return out
}
function literal(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); gsub(/\t/, "  ", text); return text ~ /^[.'"'"']/ ? "\\&" text : text }
function is_of(text,    i) {
  for (i in all) if (index(text, "`" all[i] "`") || index(text, "`" all[i] " ")) return 1
  return 0
}
/^\| `/ {
  split($0, cells, "|")
  row = cells[2]; gsub(/[` ]/, "", row); count = split(row, here, ",")
  for (i = 1; i <= count; i++) if (here[i] == name) { for (j in here) all[j] = here[j]; acts = cells[3]; gsub(/^ +| +$/, "", acts) }
}
/^- / { items[++n] = substr($0, 3); next }
/^  / && n { items[n] = items[n] " " substr($0, 3) }
END {
  title = toupper(name)
  print ".TH \"" title "\" " section " \"\" uext4 \"uext4\""
  print ".SH NAME"
  print literal(name) " \\- as uext4 has it"
  print ".SH SYNOPSIS\n.nf"
  lines = split(usage, line, "\n")
  for (i = 1; i <= lines; i++) print literal(line[i])
  print ".fi\n.SH DESCRIPTION"
  print "This program is a link to"
  print ".BR uext4 (1),"
  print "which has the options, the exit codes, and the output that scripts read, of the program of this name in e2fsprogs 1.47."
  print ".PP\nActs as: " roff(acts) "."
  print ".PP\nImages are files or block devices, raw or qcow2, a partition of them"
  print "(\\fBdisk.img?partition=2\\fR), or what an NBD server has."
  print ".SH WHAT DIFFERS"
  for (i = 1; i <= n; i++) if (is_of(items[i])) { print ".IP \\(bu 2"; print roff(items[i]); found = 1 }
  if (!found) print "Nothing that is known."
  print ".SH SEE ALSO\n.BR uext4 (1)"
}' "$names"
