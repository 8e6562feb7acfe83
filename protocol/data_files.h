// Whether the files that a job trains and validates on are still those that it began with, and the
// same on all of its nodes.
#ifndef STRATA_PROTOCOL_DATA_FILES_H_
#define STRATA_PROTOCOL_DATA_FILES_H_

#include <string>

#include "google/protobuf/repeated_field.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::protocol {

using DataFiles = google::protobuf::RepeatedPtrField<v1::DataFile>;

// How a file differs from what it was: "its size went from 100 to 120 bytes", "its content differs
// from about byte 4096 of 8192 on". Empty: it does not. Where it is kept does not matter.
std::string ChangeOf(const v1::DataFile& was, const v1::DataFile& is);

// The same of the first file that differs, behind its path and ": ". Files are compared in the
// order of the job's data section. Empty: none differs.
std::string ChangeOf(const DataFiles& were, const DataFiles& are);

// What to do about a changed file.
inline constexpr char kChangedDataAdvice[] =
    "restore it as it was, or start a new job in another directory";

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_DATA_FILES_H_
