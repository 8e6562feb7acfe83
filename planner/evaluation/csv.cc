#include "planner/evaluation/csv.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::planner {
namespace {

class Reader {
 public:
  Reader(absl::string_view text, absl::string_view file) : text_(text), file_(file) {}

  bool done() const { return at_ >= text_.size(); }

  absl::StatusOr<CsvRecord> Record() {
    CsvRecord record;
    for (;;) {
      CsvField field = {"", line_, column_};
      if (!done() && text_[at_] == '"') {
        RETURN_IF_ERROR(Quoted(field));
      } else {
        RETURN_IF_ERROR(Bare(field));
      }
      record.push_back(std::move(field));
      if (done()) return record;
      const char end = text_[at_];
      Step();
      if (end == '\n') return record;
    }
  }

 private:
  void Step() {
    if (text_[at_++] == '\n') {
      ++line_;
      column_ = 1;
    } else {
      ++column_;
    }
  }

  // Whether a field ends here. A carriage return before the end of the line belongs to that end.
  bool AtEnd() {
    if (done()) return true;
    if (text_[at_] == '\r' && (at_ + 1 == text_.size() || text_[at_ + 1] == '\n')) Step();
    return done() || text_[at_] == ',' || text_[at_] == '\n';
  }

  absl::Status Bare(CsvField& field) {
    while (!AtEnd()) {
      if (text_[at_] == '"') {
        return CsvError(file_, line_, column_, "a quote inside a field that has none around it",
                        "write the whole field in quotes, and \"\" for each quote in it");
      }
      field.text += text_[at_];
      Step();
    }
    return absl::OkStatus();
  }

  absl::Status Quoted(CsvField& field) {
    Step();
    for (;;) {
      if (done()) {
        return CsvError(file_, field.line, field.column, "this quote has no end",
                        "end the field with a quote");
      }
      const char c = text_[at_];
      Step();
      if (c != '"') {
        field.text += c;
      } else if (!done() && text_[at_] == '"') {
        field.text += '"';
        Step();
      } else {
        break;
      }
    }
    if (AtEnd()) return absl::OkStatus();
    return CsvError(file_, line_, column_, "text after a field's closing quote",
                    "end the field with a comma, or write \"\" for a quote in it");
  }

  absl::string_view text_, file_;
  size_t at_ = 0;
  int line_ = 1, column_ = 1;
};

bool Blank(const CsvRecord& record) { return record.size() == 1 && record[0].text.empty(); }

}  // namespace

absl::Status CsvError(absl::string_view file, int line, int column, absl::string_view what,
                      absl::string_view remedy) {
  return absl::InvalidArgumentError(
      absl::StrCat(file, ":", line, ":", column, ": ", what, " — ", remedy));
}

absl::StatusOr<CsvTable> ReadCsv(absl::string_view text, absl::string_view file) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  Reader reader(text, file);
  CsvTable table;
  if (reader.done()) {
    return CsvError(file, 1, 1, "the file is empty", "the first line names the columns");
  }
  ASSIGN_OR_RETURN(const CsvRecord header, reader.Record());
  std::set<std::string> names;
  for (const CsvField& field : header) {
    if (!names.insert(field.text).second) {
      return CsvError(file, field.line, field.column,
                      absl::StrCat("column ", field.text, " is there twice"), "remove one");
    }
    table.columns.push_back(field.text);
  }
  while (!reader.done()) {
    ASSIGN_OR_RETURN(CsvRecord record, reader.Record());
    if (Blank(record)) continue;
    if (record.size() != table.columns.size()) {
      const CsvField& place =
          record.size() > table.columns.size() ? record[table.columns.size()] : record.back();
      return CsvError(file, place.line, place.column,
                      absl::StrCat("this record has ", record.size(), " fields, the columns are ",
                                   table.columns.size()),
                      "give every column a field, and quote fields with commas in them");
    }
    table.records.push_back(std::move(record));
  }
  return table;
}

}  // namespace strata::planner
