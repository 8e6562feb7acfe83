#include "controller/metrics/exposition_check.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

namespace strata::controller {
namespace {

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The cumulative buckets of one histogram series.
struct Buckets {
  double last_bound = -INFINITY;
  double last_count = 0;
  std::optional<double> infinite;
  std::optional<double> count;
  bool has_sum = false;
};

class Checker {
 public:
  std::vector<std::string> Check(const std::string& page) {
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
      line_ = line;
      if (line.rfind("# HELP ", 0) == 0) {
        Help(line.substr(7));
      } else if (line.rfind("# TYPE ", 0) == 0) {
        Type(line.substr(7));
      } else {
        Sample(line);
      }
    }
    if (page.empty() || page.back() != '\n') Problem("the page does not end with a line's end");
    EndFamily();
    return problems_;
  }

 private:
  void Problem(const std::string& what) { problems_.push_back(what + ": " + line_); }

  void Help(const std::string& rest) {
    EndFamily();
    family_ = rest.substr(0, rest.find(' '));
    if (!families_.insert(family_).second) Problem("a family comes twice");
    if (rest.find(' ') == std::string::npos) Problem("no help");
    if (!std::regex_match(family_, std::regex("strata_[a-z][a-z0-9_]*"))) Problem("bad name");
    if (std::regex_search(family_, std::regex("_(ms|milliseconds|us|kb|mib|gib|percent)(_|$)"))) {
      Problem("no base unit");
    }
    type_.clear();
  }

  void Type(const std::string& rest) {
    if (rest.substr(0, rest.find(' ')) != family_) Problem("a type without its help");
    type_ = rest.substr(rest.find(' ') + 1);
    if (type_ != "counter" && type_ != "gauge" && type_ != "histogram") Problem("unknown type");
    if ((type_ == "counter") != EndsWith(family_, "_total")) {
      Problem("_total belongs to counters, all of them");
    }
  }

  void Sample(const std::string& line) {
    static const std::regex kSample(
        R"re(([a-z_0-9]+)(\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+))re");
    std::smatch match;
    if (!std::regex_match(line, match, kSample)) return Problem("no sample");
    const std::string name = match[1];
    const std::string labels = match[3];
    const std::string value = match[4];
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (*end != '\0') Problem("no number");
    if (!series_.insert(name + "{" + labels + "}").second) Problem("a series comes twice");
    if (type_.empty()) return Problem("a sample without a type");
    if (type_ == "counter" && !(number >= 0 && std::isfinite(number))) Problem("bad counter");
    if (type_ == "histogram") return HistogramSample(name, labels, number);
    if (name != family_) Problem("a sample of another family");
  }

  void HistogramSample(const std::string& name, const std::string& labels, double value) {
    static const std::regex kBound(R"re(,?le="([^"]*)")re");
    std::smatch bound;
    const bool has_bound = std::regex_search(labels, bound, kBound);
    Buckets& buckets = buckets_[std::regex_replace(labels, kBound, "")];
    if (name == family_ + "_sum") {
      buckets.has_sum = true;
    } else if (name == family_ + "_count") {
      buckets.count = value;
    } else if (name != family_ + "_bucket" || !has_bound) {
      Problem("no part of a histogram");
    } else {
      const double limit = std::strtod(bound.str(1).c_str(), nullptr);
      if (limit <= buckets.last_bound || value < buckets.last_count) Problem("buckets go back");
      buckets.last_bound = limit;
      buckets.last_count = value;
      if (std::isinf(limit)) buckets.infinite = value;
    }
  }

  void EndFamily() {
    for (const auto& [labels, buckets] : buckets_) {
      if (!buckets.has_sum || !buckets.count || buckets.infinite != buckets.count) {
        problems_.push_back(family_ + "{" + labels + "}: an incomplete histogram");
      }
    }
    buckets_.clear();
  }

  std::vector<std::string> problems_;
  std::string line_;
  std::string family_;
  std::string type_;
  std::set<std::string> families_;
  std::set<std::string> series_;
  std::map<std::string, Buckets> buckets_;  // by the labels but le
};

}  // namespace

std::vector<std::string> ExpositionProblems(const std::string& page) {
  return Checker().Check(page);
}

}  // namespace strata::controller
