// strata.v1.JobService over gRPC: converts and forwards.
#ifndef STRATA_CONTROLLER_SERVICE_JOB_SERVICE_H_
#define STRATA_CONTROLLER_SERVICE_JOB_SERVICE_H_

#include <memory>
#include <string>

#include "controller/service/calls/calls.h"
#include "controller/service/files/file_pool.h"
#include "controller/service/streams/log_book.h"
#include "controller/service/streams/progress_hub.h"
#include "controller/service/streams/watch_hub.h"
#include "grpcpp/impl/service_type.h"

namespace strata::controller {

// Borrowed.
struct JobServiceParts {
  CallEnvironment environment;
  WatchHub* watches = nullptr;
  ProgressHub* progress = nullptr;
  LogBook* logs = nullptr;
  FilePool* files = nullptr;
  std::string directory;  // of the controller: jobs without one of their own go to jobs/NAME below
};

std::unique_ptr<grpc::Service> MakeJobService(const JobServiceParts& parts);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_JOB_SERVICE_H_
