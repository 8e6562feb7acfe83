#include "protocol/profile_file.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/host_name.h"

namespace strata::protocol {
namespace {

constexpr char kAgain[] = " — strata calibrate makes a new one";

// The first mistake: those that follow are mostly its consequences.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!text_.empty()) return;
    text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

bool IsTime(double seconds) { return std::isfinite(seconds) && seconds > 0; }

// What ranks and devices have. Empty: nothing.
template <typename Measured>
std::string WrongInTimes(const Measured& measured) {
  if (!(std::isfinite(measured.action_seconds()) && measured.action_seconds() >= 0)) {
    return "action_seconds is no time";
  }
  for (const v1::OpTime& time : measured.ops()) {
    if (!IsTime(time.seconds()) || !(time.flops() >= 0) || !(time.bytes() >= 0)) {
      return absl::StrCat("ops: the times and sizes of ", time.kind(), " are not positive");
    }
  }
  for (const v1::CommunicationTime& time : measured.communications()) {
    if (!IsTime(time.seconds()) || time.bytes() < 0) {
      return absl::StrCat("communications: the times of ", time.op(), " are not positive");
    }
  }
  return "";
}

bool ArePositive(const google::protobuf::RepeatedPtrField<v1::CopyTime>& copies) {
  return std::all_of(copies.begin(), copies.end(), [](const v1::CopyTime& time) {
    return IsTime(time.seconds()) && time.bytes() >= 1;
  });
}

std::string WrongIn(const v1::RankProfile& ranks) {
  if (ranks.ranks() < 1 || ranks.threads() < 1) return "ranks and threads are at least 1";
  if (std::string wrong = WrongInTimes(ranks); !wrong.empty()) return wrong;
  if (!ArePositive(ranks.copies())) return "copies: they are not positive";
  for (const v1::Interference& each : ranks.interference()) {
    if (!(each.compute_lost() >= 0 && each.compute_lost() < 1) || each.bytes() < 0 ||
        !(std::isfinite(each.communication_stretch()) && each.communication_stretch() >= 1)) {
      return "interference: compute_lost is below 1, communication_stretch at least 1";
    }
  }
  return "";
}

std::string WrongIn(const v1::DeviceProfile& device) {
  if (device.name().empty() || device.kind().empty()) return "its name or kind is missing";
  if (device.ops().empty()) return "ops: there are none";
  if (std::string wrong = WrongInTimes(device); !wrong.empty()) return wrong;
  if (device.to_device().empty() || device.from_device().empty() ||
      !ArePositive(device.to_device()) || !ArePositive(device.from_device()) ||
      !ArePositive(device.both_ways())) {
    return "copies: there are none, or they are not positive";
  }
  return "";
}

// Which measurement takes another's place.
bool AreOfOneKind(const v1::DeviceProfile& a, const v1::DeviceProfile& b) {
  return a.kind() == b.kind() && a.standin() == b.standin();
}
bool AreOfOneKind(const v1::DiskProfile& a, const v1::DiskProfile& b) {
  return a.directory() == b.directory();
}

template <typename Measured>
void Keep(const google::protobuf::RepeatedPtrField<Measured>& known,
          google::protobuf::RepeatedPtrField<Measured>* merged) {
  for (const Measured& old : known) {
    const bool again = std::any_of(merged->begin(), merged->end(), [&](const Measured& measured) {
      return AreOfOneKind(measured, old);
    });
    if (!again) *merged->Add() = old;
  }
}

bool IsRate(double rate) { return std::isfinite(rate) && rate > 0; }

std::string WrongIn(const v1::DiskProfile& disk) {
  if (disk.directory().empty()) return "its directory is missing";
  for (const v1::DiskRate& rate : disk.rates()) {
    if (rate.request_bytes() < 1 || rate.depth() < 1 || !IsRate(rate.read()) ||
        !IsRate(rate.write()) || !IsRate(rate.mixed())) {
      return "rates: sizes and rates are not positive";
    }
  }
  return "";
}

}  // namespace

std::string ProfilePathIn(const std::string& folder) {
  return absl::StrCat(folder, "/profiles/", common::HostName(), ".textproto");
}

absl::StatusOr<v1::Profile> ParseProfile(const std::string& path, const std::string& text) {
  v1::Profile profile;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &profile)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", error.text(), kAgain));
  }
  if (profile.host().empty() || (profile.ranks().empty() && profile.devices().empty())) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":1:1: it holds no measurements", kAgain));
  }
  for (int i = 0; i < profile.ranks_size(); ++i) {
    const std::string wrong = WrongIn(profile.ranks(i));
    if (wrong.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(path, ": ranks[", i, "]: ", wrong, kAgain));
  }
  for (const v1::DeviceProfile& device : profile.devices()) {
    const std::string wrong = WrongIn(device);
    if (wrong.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": devices: ", device.name(), ": ", wrong, kAgain));
  }
  for (const v1::DiskProfile& disk : profile.disks()) {
    const std::string wrong = WrongIn(disk);
    if (wrong.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": disks: ", disk.directory(), ": ", wrong, kAgain));
  }
  if (profile.host_copy_rate() != 0 && !IsRate(profile.host_copy_rate())) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": host_copy_rate is no rate", kAgain));
  }
  return profile;
}

v1::Profile MergedProfiles(const v1::Profile& known, const v1::Profile& measured) {
  if (known.host() != measured.host()) return measured;
  v1::Profile merged = measured;
  if (measured.ranks().empty() && !known.ranks().empty()) {
    merged = known;
    *merged.mutable_devices() = measured.devices();
    *merged.mutable_disks() = measured.disks();
  }
  Keep(known.devices(), merged.mutable_devices());
  Keep(known.disks(), merged.mutable_disks());
  return merged;
}

std::string ProfileText(const v1::Profile& profile) {
  std::string text;
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  printer.PrintToString(profile, &text);
  return absl::StrCat("# proto-file: proto/strata/v1/profile.proto, proto-message: Profile\n",
                      text);
}

}  // namespace strata::protocol
