// Comma-separated values with quotes (RFC 4180), each field with its place. The first record names
// the columns.
#ifndef STRATA_PLANNER_EVALUATION_CSV_H_
#define STRATA_PLANNER_EVALUATION_CSV_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::planner {

struct CsvField {
  std::string text;
  int line = 1;  // where it begins; counted from 1, columns in bytes
  int column = 1;
};

using CsvRecord = std::vector<CsvField>;

struct CsvTable {
  std::vector<std::string> columns;
  std::vector<CsvRecord> records;  // each with as many fields as there are columns
};

// "FILE:LINE:COLUMN: WHAT — REMEDY".
absl::Status CsvError(absl::string_view file, int line, int column, absl::string_view what,
                      absl::string_view remedy);

// InvalidArgument at the first thing wrong: a quote that does not end, text after one, a record of
// another length than the first, a column named twice, no columns. `file` is printed.
absl::StatusOr<CsvTable> ReadCsv(absl::string_view text, absl::string_view file);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_EVALUATION_CSV_H_
