// Text and digests of programs. The text is stable: the same program gives the same lines on every
// machine.
#ifndef STRATA_PROGRAM_READERS_DUMP_H_
#define STRATA_PROGRAM_READERS_DUMP_H_

#include <map>
#include <string>

#include "program/ir/program.h"

namespace strata::program {

// Instructions with streams, dependencies and operands; slots with their places. `ops`: templates'
// ops too.
std::string Dump(const ProgramSet& set, const Program& program, bool ops = false);

// A template: its frame and ops.
std::string DumpTemplate(const Template& tmpl);

// What all ranks of a stage must agree on: every program with its ops and places, and the build's
// own mark.
std::string ProgramDigest(const ProgramSet& set, const std::string& build);

// What the members of each group must agree on: the sequence of its collectives, stream by stream.
std::map<Group, std::string> GroupDigests(const ProgramSet& set);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_READERS_DUMP_H_
