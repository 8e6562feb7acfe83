// strata.v1.ClusterService over gRPC: converts and forwards.
#ifndef STRATA_CONTROLLER_SERVICE_CLUSTER_SERVICE_H_
#define STRATA_CONTROLLER_SERVICE_CLUSTER_SERVICE_H_

#include <memory>

#include "controller/service/calls/calls.h"
#include "controller/service/files/file_pool.h"
#include "controller/service/streams/watch_hub.h"
#include "grpcpp/impl/service_type.h"
#include "proto/strata/v1/cluster.pb.h"

namespace strata::controller {

// `about`: what GetCluster answers, except the term and the store's identity. Borrowed: watches,
// files.
std::unique_ptr<grpc::Service> MakeClusterService(const CallEnvironment& environment,
                                                  const v1::Cluster& about, NodeWatchHub* watches,
                                                  FilePool* files);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_CLUSTER_SERVICE_H_
