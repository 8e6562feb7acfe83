#include "planner/cost/device_cost_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace strata::planner {
namespace {

using program::Tier;

constexpr char kMeasureDevice[] = "strata calibrate --device gpu measures this machine's";

// As a rank's, whose kernels these are.
v1::RankProfile RankOf(const v1::DeviceProfile& device) {
  v1::RankProfile rank;
  rank.set_action_seconds(device.action_seconds());
  *rank.mutable_ops() = device.ops();
  *rank.mutable_copies() = device.to_device();
  *rank.mutable_communications() = device.communications();
  return rank;
}

// While the other way is at work, how many times longer the largest copy takes.
double StretchOf(const google::protobuf::RepeatedPtrField<v1::CopyTime>& alone,
                 const google::protobuf::RepeatedPtrField<v1::CopyTime>& both) {
  if (alone.empty() || both.empty()) return 1;
  const v1::CopyTime &one = *alone.rbegin(), &of_both = *both.rbegin();
  return one.bytes() == of_both.bytes() ? std::max(1.0, of_both.seconds() / one.seconds()) : 1;
}

bool OnDisk(Tier from, Tier to) { return from == Tier::kSsd || to == Tier::kSsd; }

bool Answers(const v1::DeviceProfile& device, const ProfiledDevice& wanted) {
  if (device.standin() || wanted.standin) return device.standin() && wanted.standin;
  return wanted.device == "gpu" || device.kind() == wanted.device;
}

std::string NameOf(const v1::DeviceProfile& device) {
  return device.standin() ? "the stand-in of CUDA" : device.kind();
}

std::unique_ptr<const program::CostModel> HostCosts(const v1::RankProfile* host) {
  if (host != nullptr) return std::make_unique<ProfileCostModel>(*host);
  return std::make_unique<program::RateCostModel>(program::Rates{});
}

}  // namespace

absl::StatusOr<const v1::DeviceProfile*> FindDevice(const v1::Profile& profile,
                                                    const ProfiledDevice& wanted) {
  if (profile.host() != wanted.host) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the profile is of host ", profile.host(), ", not of ", wanted.host, ": ", kMeasureDevice));
  }
  const v1::DeviceProfile* found = nullptr;
  std::string known;
  for (const v1::DeviceProfile& device : profile.devices()) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", NameOf(device));
    if (!Answers(device, wanted)) continue;
    if (found != nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("the profile has devices of several kinds (", found->kind(), ", ",
                       device.kind(), "): resources.device says which a job computes on"));
    }
    found = &device;
  }
  if (found != nullptr) return found;
  return absl::FailedPreconditionError(
      absl::StrCat("the profile has no measurement of ",
                   wanted.standin           ? "the stand-in of CUDA"
                   : wanted.device == "gpu" ? "a GPU"
                                            : absl::StrCat("kind ", wanted.device),
                   known.empty() ? "" : absl::StrCat(", only of ", known), ": ", kMeasureDevice));
}

std::string DescribeTimes(const v1::DeviceProfile& device, int64_t ranks) {
  std::string text = device.standin()
                         ? "the profile of the stand-in of CUDA, whose times mean nothing"
                         : absl::StrCat("the profile of this machine's ", device.name(),
                                        " (strata calibrate --device gpu)");
  if (ranks > 1 && device.communications().empty()) {
    absl::StrAppend(&text, ", communication by assumed rates, as there was one device to measure");
  }
  return text;
}

DeviceCostModel::DeviceCostModel(const v1::DeviceProfile& device, const BesideDevice& beside)
    : communicates_(!device.communications().empty()),
      kernels_(RankOf(device), beside.disks),
      host_(HostCosts(beside.host)),
      usual_(beside.usual),
      to_stretch_(StretchOf(device.to_device(), device.both_ways())),
      from_stretch_(StretchOf(device.from_device(), device.both_ways())) {
  for (const v1::CopyTime& time : device.to_device()) {
    to_device_.Add(static_cast<double>(time.bytes()), time.seconds());
  }
  for (const v1::CopyTime& time : device.from_device()) {
    from_device_.Add(static_cast<double>(time.bytes()), time.seconds());
  }
}

double DeviceCostModel::CollectiveSeconds(const program::Communication& communication,
                                          program::GroupSpan group) const {
  if (communicates_) return kernels_.CollectiveSeconds(communication, group);
  return usual_.CollectiveSeconds(communication, group);
}

double DeviceCostModel::MessageSeconds(const program::Communication& communication,
                                       program::GroupSpan group) const {
  if (communicates_) return kernels_.MessageSeconds(communication, group);
  return usual_.MessageSeconds(communication, group);
}

double DeviceCostModel::TransferSeconds(Tier from, Tier to, int64_t bytes) const {
  if (OnDisk(from, to)) return kernels_.TransferSeconds(from, to, bytes);
  const TimesBySize& times = from == Tier::kDevice ? from_device_ : to_device_;
  return times.empty() ? 0 : times.At(static_cast<double>(bytes));
}

double DeviceCostModel::BothWays(Tier from, Tier to) const {
  if (OnDisk(from, to)) return kernels_.BothWays(from, to);
  return from == Tier::kDevice ? from_stretch_ : to_stretch_;
}

}  // namespace strata::planner
