#include "data/tokenizer/json.h"

#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::data {
namespace {

constexpr size_t kDeepest = 64;

// Receives the parser's events and builds the tree, but for what is large.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  // `place`: the path of the value that the text is, for large values to be found in.
  Builder(LargeValues* large, std::vector<std::string> place)
      : large_(large), path_(std::move(place)) {}

  Json TakeRoot() { return std::move(root_); }
  const absl::Status& status() const { return status_; }

  bool null() override { return Value(nullptr); }
  bool boolean(bool value) override { return Value(value); }
  bool number_integer(number_integer_t value) override { return Value(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (mode_ != Mode::kVocabulary) return Value(value);
    // Larger ones are refused as any other number that is no id.
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return Check(large_->vocabulary.Add(key_, static_cast<int64_t>(std::min(value, kMost))));
  }
  bool number_float(number_float_t value, const string_t&) override { return Value(value); }
  bool binary(binary_t&) override { return Fail("binary data"); }

  bool string(string_t& value) override {
    if (mode_ == Mode::kPair) {
      pair_.push_back(std::move(value));
      return true;
    }
    if (mode_ != Mode::kMerges) return Value(std::move(value));
    if (value.rfind("#version", 0) == 0) return true;
    absl::StatusOr<std::pair<std::string, std::string>> merge = ParseMerge(value);
    if (!merge.ok()) return Check(merge.status());
    large_->merges.push_back(*std::move(merge));
    return true;
  }

  bool start_object(std::size_t) override {
    if (mode_ != Mode::kTree) return Fail("an object where none is expected");
    if (large_ != nullptr && path_ == std::vector<std::string>{"model", "vocab"}) {
      mode_ = Mode::kVocabulary;
      return true;
    }
    return Open(Json::object());
  }
  bool end_object() override {
    if (mode_ == Mode::kVocabulary) {
      mode_ = Mode::kTree;
      Leave();
      return true;
    }
    return Close();
  }
  bool key(string_t& key) override {
    key_ = std::move(key);
    if (mode_ == Mode::kVocabulary) return true;
    path_.push_back(key_);
    if (open_.back()->contains(key_)) return Fail("this key is there twice");
    return true;
  }

  bool start_array(std::size_t) override {
    if (mode_ == Mode::kMerges) {
      mode_ = Mode::kPair;
      pair_.clear();
      return true;
    }
    if (mode_ != Mode::kTree) return Fail("a list where none is expected");
    if (large_ != nullptr && path_ == std::vector<std::string>{"model", "merges"}) {
      mode_ = Mode::kMerges;
      return true;
    }
    return Open(Json::array());
  }
  bool end_array() override {
    if (mode_ == Mode::kPair) {
      if (pair_.size() != 2) return Fail("a merge that is not of two texts");
      large_->merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
      mode_ = Mode::kMerges;
      return true;
    }
    if (mode_ == Mode::kMerges) {
      mode_ = Mode::kTree;
      Leave();
      return true;
    }
    return Close();
  }

  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at …": what matters is behind the bracket.
    const std::string what = error.what();
    status_ =
        absl::InvalidArgumentError(absl::StrCat("not JSON: ", what.substr(what.find(' ') + 1)));
    return false;
  }

 private:
  enum class Mode { kTree, kVocabulary, kMerges, kPair };

  bool Fail(const std::string& what) {
    std::string where;
    for (const std::string& key : path_) absl::StrAppend(&where, where.empty() ? "" : ".", key);
    status_ = absl::InvalidArgumentError(absl::StrCat(where, where.empty() ? "" : ": ", what));
    return false;
  }
  bool Check(const absl::Status& status) {
    return status.ok() || Fail(std::string(status.message()));
  }

  // The value at path_ has been read.
  void Leave() {
    if (!open_.empty() && open_.back()->is_object()) path_.pop_back();
  }
  Json* Put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    Json& place = (*open_.back())[path_.back()];
    place = std::move(value);
    return &place;
  }
  bool Value(Json value) {
    if (mode_ == Mode::kVocabulary) return Fail("an id that is not a count");
    if (mode_ != Mode::kTree) return Fail("a merge that is not of texts");
    Put(std::move(value));
    Leave();
    return true;
  }
  bool Open(Json value) {
    if (open_.size() >= kDeepest) return Fail("nested too deep");
    open_.push_back(Put(std::move(value)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    Leave();
    return true;
  }

  LargeValues* const large_;
  Mode mode_ = Mode::kTree;
  Json root_;
  std::vector<Json*> open_;  // the containers that the next value is in
  std::vector<std::string> path_;
  std::string key_;
  std::vector<std::string> pair_;
  absl::Status status_;
};

absl::StatusOr<Json> Parse(std::string_view text, LargeValues* large,
                           std::vector<std::string> place) {
  Builder builder(large, std::move(place));
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return builder.status();
  return builder.TakeRoot();
}

absl::Status WrongType(const char* key, const char* expected) {
  return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" is not ", expected));
}

}  // namespace

absl::StatusOr<Json> ParseJson(std::string_view text, LargeValues* large) {
  return Parse(text, large, {});
}

absl::StatusOr<Vocabulary> ParseVocabulary(std::string_view text) {
  LargeValues large;
  RETURN_IF_ERROR(Parse(text, &large, {"model", "vocab"}).status());
  if (large.vocabulary.size() == 0) {
    return absl::InvalidArgumentError("not an object of tokens and their ids");
  }
  return std::move(large.vocabulary);
}

absl::StatusOr<std::pair<std::string, std::string>> ParseMerge(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    return absl::InvalidArgumentError("a merge that is not two texts with a space between");
  }
  return std::make_pair(std::string(line.substr(0, space)), std::string(line.substr(space + 1)));
}

const Json* Field(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

absl::Status GetBool(const Json& object, const char* key, bool* value) {
  const Json* const field = Field(object, key);
  if (field == nullptr) return absl::OkStatus();
  if (!field->is_boolean()) return WrongType(key, "true or false");
  *value = field->get<bool>();
  return absl::OkStatus();
}

absl::Status GetText(const Json& object, const char* key, std::string* value) {
  const Json* const field = Field(object, key);
  if (field == nullptr) return absl::OkStatus();
  if (!field->is_string()) return WrongType(key, "a text");
  *value = field->get<std::string>();
  return absl::OkStatus();
}

absl::Status GetOptionalText(const Json& object, const char* key,
                             std::optional<std::string>* value) {
  if (Field(object, key) == nullptr) return absl::OkStatus();
  return GetText(object, key, &value->emplace());
}

absl::Status GetCount(const Json& object, const char* key, int64_t* value) {
  const Json* const field = Field(object, key);
  if (field == nullptr) return absl::OkStatus();
  if (!field->is_number_unsigned() ||
      field->get<uint64_t>() > std::numeric_limits<int32_t>::max()) {
    return WrongType(key, "a count");
  }
  *value = static_cast<int64_t>(field->get<uint64_t>());
  return absl::OkStatus();
}

absl::StatusOr<std::string> TypeOf(const Json& object, const char* what) {
  std::string type;
  if (!object.is_object()) return absl::InvalidArgumentError(absl::StrCat(what, ": not an object"));
  RETURN_IF_ERROR(GetText(object, "type", &type));
  if (type.empty()) return absl::InvalidArgumentError(absl::StrCat(what, ": without a \"type\""));
  return type;
}

}  // namespace strata::data
