// The request of every RPC as it comes over the wire, and what the services check of it before
// they look at their state. The first byte chooses the RPC.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/check.h"
#include "controller/service/requests/audit_filter.h"
#include "controller/service/requests/job_list.h"
#include "controller/service/requests/spec_check.h"
#include "controller/service/requests/update_check.h"
#include "proto/strata/v1/access.pb.h"
#include "proto/strata/v1/agent.pb.h"
#include "proto/strata/v1/cluster.pb.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::controller {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Message;

// What each method takes and gives.
std::vector<const Message*> AllMessages() {
  std::vector<const Message*> messages;
  auto* factory = google::protobuf::MessageFactory::generated_factory();
  for (const Descriptor* any :
       {v1::CreateJobRequest::descriptor(), v1::ListNodesRequest::descriptor(),
        v1::AgentMessage::descriptor(), v1::EnrollNodeRequest::descriptor()}) {
    const auto* file = any->file();
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const auto* method = file->service(s)->method(m);
        messages.push_back(factory->GetPrototype(method->input_type()));
        messages.push_back(factory->GetPrototype(method->output_type()));
      }
    }
  }
  return messages;
}

void Check(const Message& message) {
  if (const auto* create = dynamic_cast<const v1::CreateJobRequest*>(&message)) {
    v1::JobSpec spec = create->job().spec();
    if (CheckSpec("name", spec).ok()) STRATA_CHECK(CheckSpec("name", spec).ok());
  } else if (const auto* update = dynamic_cast<const v1::UpdateJobRequest*>(&message)) {
    static_cast<void>(CheckUpdate(*update));
  } else if (const auto* apply = dynamic_cast<const v1::ApplyPolicyRequest*>(&message)) {
    static_cast<void>(CheckPolicy(apply->policy()));
  } else if (const auto* list = dynamic_cast<const v1::ListJobsRequest*>(&message)) {
    static_cast<void>(JobList::Parse(*list).status());
  } else if (const auto* audit = dynamic_cast<const v1::ListAuditRecordsRequest*>(&message)) {
    static_cast<void>(ParseAuditFilter(audit->filter()).status());
  }
}

}  // namespace
}  // namespace strata::controller

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto& messages =
      *new std::vector<const google::protobuf::Message*>(strata::controller::AllMessages());
  if (size < 1) return 0;
  const std::unique_ptr<google::protobuf::Message> message(
      messages[data[0] % messages.size()]->New());
  if (!message->ParseFromArray(data + 1, static_cast<int>(size - 1))) return 0;
  message->ShortDebugString();
  strata::controller::Check(*message);
  return 0;
}
