// A message whose fields are a file's keys (JobSpec, Policy) as that file.
#ifndef STRATA_SPEC_WRITER_H_
#define STRATA_SPEC_WRITER_H_

#include <google/protobuf/message.h>

#include <string>

namespace strata::spec {

// Reads back (spec/reader.h) to an equal message. Only fields that are present are written.
std::string WriteFile(const google::protobuf::Message& file);

}  // namespace strata::spec

#endif  // STRATA_SPEC_WRITER_H_
