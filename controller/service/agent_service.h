// strata.v1.AgentService over gRPC: one bidirectional stream per agent.
#ifndef STRATA_CONTROLLER_SERVICE_AGENT_SERVICE_H_
#define STRATA_CONTROLLER_SERVICE_AGENT_SERVICE_H_

#include <memory>

#include "controller/service/calls/calls.h"
#include "controller/service/reactor/deadlines.h"
#include "controller/service/reactor/session_table.h"
#include "controller/service/streams/log_book.h"
#include "controller/service/transport/places.h"
#include "grpcpp/impl/service_type.h"

namespace strata::controller {

// Borrowed.
struct AgentServiceParts {
  CallEnvironment environment;
  SessionTable* sessions = nullptr;
  LogBook* logs = nullptr;
  AgentObserver* observer = nullptr;
  Deadlines* registration = nullptr;  // until which a new session is to register
  NodeSources* node_sources = nullptr;
};

std::unique_ptr<grpc::Service> MakeAgentService(const AgentServiceParts& parts);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_AGENT_SERVICE_H_
