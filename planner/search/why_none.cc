#include "planner/search/why_none.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/divisors.h"

namespace strata::planner {
namespace {

// A degree as it is pinned, and as a layout has it.
struct Degree {
  const char* key;
  std::optional<int64_t> Pins::*pin;
  int64_t (*of)(const LayoutChoice&);
};
constexpr Degree kDegrees[] = {
    {"tensor", &Pins::tensor, [](const LayoutChoice& l) { return l.tensor; }},
    {"context", &Pins::context, [](const LayoutChoice& l) { return l.context; }},
    {"expert", &Pins::expert, [](const LayoutChoice& l) { return l.expert; }},
    {"pipeline", &Pins::pipeline, [](const LayoutChoice& l) { return l.pipeline; }},
    {"virtual_stages", &Pins::chunks, [](const LayoutChoice& l) { return l.chunks; }},
    {"data", &Pins::data, [](const LayoutChoice& l) { return l.data; }},
    {"micro_batch", &Pins::micro_batch, [](const LayoutChoice& l) { return l.micro_batch; }},
    // 0: nothing is shared.
    {"shard_group", &Pins::shard_group, [](const LayoutChoice& l) {
       return l.sharding == Sharding::kReplicated ? 0 : l.data / l.replicas;
     }}};

std::vector<const Degree*> PinnedOf(const SearchRequest& request) {
  std::vector<const Degree*> pinned;
  for (const Degree& degree : kDegrees) {
    if ((request.pins.*degree.pin).has_value()) pinned.push_back(&degree);
  }
  return pinned;
}

SearchRequest Without(SearchRequest request, const std::vector<const Degree*>& degrees) {
  for (const Degree* degree : degrees) (request.pins.*degree->pin).reset();
  return request;
}

std::set<int64_t> LegalValues(const SearchRequest& request, const Degree& degree) {
  std::set<int64_t> values;
  VisitLegal(request, [&](const LayoutChoice& layout) { values.insert(degree.of(layout)); });
  values.erase(0);
  return values;
}

bool IsLegal(const SearchRequest& request) {
  bool legal = false;
  VisitLegal(request, [&](const LayoutChoice&) { legal = true; });
  return legal;
}

// "tensor=1, 2, 4 or 8": of many those nearest to what was asked.
std::string ListOf(const Degree& degree, const std::set<int64_t>& values, int64_t asked) {
  constexpr size_t kMost = 10;
  std::vector<int64_t> all(values.begin(), values.end());
  if (all.size() > kMost) {
    const auto distance = [&](int64_t value) {
      return std::abs(std::log(static_cast<double>(value) / static_cast<double>(asked)));
    };
    std::stable_sort(all.begin(), all.end(),
                     [&](int64_t a, int64_t b) { return distance(a) < distance(b); });
    all.resize(kMost);
    std::sort(all.begin(), all.end());
  }
  std::string text = absl::StrCat(degree.key, "=", all.front());
  for (size_t i = 1; i < all.size(); ++i) {
    absl::StrAppend(&text, i + 1 < all.size() ? ", " : " or ", all[i]);
  }
  return text;
}

std::string Said(const SearchRequest& request, const Degree& degree) {
  return absl::StrCat(degree.key, "=", *(request.pins.*degree.pin));
}
std::string SaidAll(const SearchRequest& request, const std::vector<const Degree*>& degrees) {
  return absl::StrJoin(degrees, ", ", [&](std::string* out, const Degree* degree) {
    absl::StrAppend(out, Said(request, *degree));
  });
}

// What a degree has to divide.
std::string RuleOf(const SearchRequest& request, const Degree& degree) {
  const TrainingShape& shape = request.shape;
  const int64_t value = *(request.pins.*degree.pin);
  const absl::string_view key = degree.key;
  if (key == "tensor") {
    const int64_t domain = std::max<int64_t>(request.machine.network.domain_devices, 1);
    if (value > domain) {
      return absl::StrCat(" is wider than an NVLink domain of ", domain, " devices");
    }
    return absl::StrCat(" does not cut ", request.devices, " devices, ", shape.heads, " heads, ",
                        shape.kv_heads, " of keys, and widths of ", shape.hidden, " and ",
                        shape.ffn, " evenly");
  }
  if (key == "expert") {
    return shape.experts == 0 ? ": the model has no experts"
                              : absl::StrCat(" does not divide ", shape.experts,
                                             " experts and the devices of a pipeline stage");
  }
  if (key == "context") {
    return absl::StrCat(" does not cut ", request.devices, " devices and, in two pieces a rank, ",
                        shape.sequence_length, " tokens evenly");
  }
  if (key == "pipeline") {
    return absl::StrCat(" does not cut ", request.devices, " devices and ", shape.layers,
                        " layers (or ", shape.layers + 2, " with the embedding and the head) ",
                        "evenly");
  }
  if (key == "virtual_stages") {
    return absl::StrCat(" needs a pipeline whose stages divide the micro-batches, and ",
                        shape.layers, " layers (or ", shape.layers + 2,
                        ") that all virtual stages divide");
  }
  if (key == "data") {
    return absl::StrCat(" does not divide ", request.devices, " devices and a global batch of ",
                        request.global_batch);
  }
  if (key == "micro_batch") {
    return absl::StrCat(" does not divide what data ranks have of a global batch of ",
                        request.global_batch);
  }
  return absl::StrCat(" divides no number of data ranks that ", request.devices,
                      " devices and a global batch of ", request.global_batch, " allow");
}

// Pins that no layout has, whatever else is: each with what it may be beside the others, or, where
// they leave nothing, alone.
std::string ToBlameAlone(const SearchRequest& request, const std::vector<const Degree*>& pinned) {
  const SearchRequest open = Without(request, pinned);
  std::vector<std::string> texts;
  for (const Degree* degree : pinned) {
    SearchRequest alone = open;
    alone.pins.*degree->pin = request.pins.*degree->pin;
    if (IsLegal(alone)) continue;
    std::set<int64_t> values = LegalValues(Without(request, {degree}), *degree);
    if (values.empty()) values = LegalValues(open, *degree);
    texts.push_back(absl::StrCat(
        Said(request, *degree), RuleOf(request, *degree), " — ",
        values.empty() ? "leave it out"
                       : "use " + ListOf(*degree, values, *(request.pins.*degree->pin))));
  }
  return absl::StrJoin(texts, "; ");
}

// Pins each of which some layout has, but none has all.
std::string ToBlameTogether(const SearchRequest& request, std::vector<const Degree*> pinned) {
  std::vector<std::string> ways;
  for (const Degree* degree : pinned) {
    const std::set<int64_t> values = LegalValues(Without(request, {degree}), *degree);
    if (!values.empty()) ways.push_back(ListOf(*degree, values, *(request.pins.*degree->pin)));
  }
  if (!ways.empty()) return absl::StrCat("change one: ", absl::StrJoin(ways, "; or "));
  // As few as have to be given up.
  for (size_t i = 0; i < pinned.size();) {
    std::vector<const Degree*> fewer;
    for (const Degree* degree : pinned) {
      if (degree != pinned[i]) fewer.push_back(degree);
    }
    if (IsLegal(Without(request, fewer))) {
      pinned = fewer;
    } else {
      ++i;
    }
  }
  std::optional<LayoutChoice> some;
  VisitLegal(Without(request, pinned), [&](const LayoutChoice& layout) {
    if (!some.has_value()) some = layout;
  });
  std::string text = "change them, such as to ";
  for (size_t i = 0; i < pinned.size(); ++i) {
    absl::StrAppend(&text, i > 0 ? "," : "", pinned[i]->key, "=", pinned[i]->of(*some));
  }
  return text;
}

// The next larger batch that some layout divides.
std::optional<int64_t> BatchFor(SearchRequest request) {
  std::set<int64_t> batches;
  for (const int64_t data : common::DivisorsOf(request.devices)) {
    batches.insert((request.global_batch / data + 1) * data);
  }
  for (const int64_t batch : batches) {
    request.global_batch = batch;
    if (IsLegal(request)) return batch;
  }
  return std::nullopt;
}

}  // namespace

std::string WhyNoLayout(const SearchRequest& request) {
  const TrainingShape& shape = request.shape;
  const std::vector<const Degree*> pinned = PinnedOf(request);
  const SearchRequest open = Without(request, pinned);
  const bool pins_forbid = IsLegal(open);
  const std::string facts =
      absl::StrCat(request.devices, " devices, ", shape.heads, " heads, ", shape.layers,
                   " layers, sequences of ", shape.sequence_length,
                   " tokens and a global batch of ", request.global_batch);
  std::string text;
  if (pins_forbid) {
    text = ToBlameAlone(request, pinned);
    if (!text.empty()) return text;
    text = absl::StrCat(SaidAll(request, pinned), " do not go together on ", facts, " — ",
                        ToBlameTogether(request, pinned));
  } else {
    text = absl::StrCat("no layout divides ", facts,
                        " — change the devices, the batch or the sequence");
  }
  const std::optional<int64_t> batch = BatchFor(pins_forbid ? request : open);
  if (batch.has_value()) absl::StrAppend(&text, "; or a global batch of ", *batch);
  return text;
}

}  // namespace strata::planner
