#include "topology/import/import_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "topology/device_kind.h"
#include "topology/import/name_range.h"

namespace strata::topology {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

ImportOptions EightH100() {
  ImportOptions options;
  options.device = "h100";
  options.devices = 8;
  return options;
}

Description Good(absl::string_view text, const ImportOptions& options = EightH100()) {
  absl::StatusOr<Description> description = ImportTopology("f", text, options);
  EXPECT_TRUE(description.ok()) << description.status().message();
  if (!description.ok()) return {};
  const absl::StatusOr<Cluster> cluster = Cluster::Make(*description);
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  return *std::move(description);
}

std::string ErrorOf(absl::string_view text, const ImportOptions& options = EightH100()) {
  const absl::StatusOr<Description> description = ImportTopology("f", text, options);
  EXPECT_EQ(description.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(description.status().message());
}

// "NAME VALUE/VALUE/…" of each node.
std::vector<std::string> Places(const Description& description) {
  std::vector<std::string> places;
  for (const Node& node : description.nodes) {
    places.push_back(absl::StrCat(node.name, " ", absl::StrJoin(node.at, "/")));
  }
  return places;
}

TEST(ExpandHosts, FollowsSlurmsBrackets) {
  EXPECT_THAT(*ExpandHosts("a,n[001-003,7],x[0-1]y[8-9]"),
              ElementsAre("a", "n001", "n002", "n003", "n7", "x0y8", "x0y9", "x1y8", "x1y9"));
  for (const char* list : {"", ",", "a,", "n[1", "n1]", "n[2-1]", "n[a]", "n[]", "a,,b"}) {
    EXPECT_FALSE(ExpandHosts(list).ok()) << list;
  }
  EXPECT_EQ(ExpandHosts("n[0-999]x[0-999]y[0-9]").status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(SlurmConf, TreesBecomeTiersAndNodesTheirOwnDomains) {
  const Description description = Good(R"(# fabric
SWITCHNAME=leaf1 Nodes=n[1-2] LinkSpeed=400
SwitchName=leaf2 \
   nodes=n3,login[01-02]
switchname=spine Switches=leaf[1-2] Nodes=n9 # directly below the spine
SwitchName=core Switches=spine
)");
  EXPECT_THAT(description.levels, ElementsAre("tier2", "tier1", "tier0", "domain"));
  EXPECT_EQ(description.domain_level, "domain");
  EXPECT_THAT(
      Places(description),
      ElementsAre("login01 core/spine/leaf2/", "login02 core/spine/leaf2/", "n1 core/spine/leaf1/",
                  "n2 core/spine/leaf1/", "n3 core/spine/leaf2/", "n9 core/spine//"));
  EXPECT_EQ(description.nodes[2].kind, "h100");
  EXPECT_EQ(description.nodes[2].free.size(), 8u);
  const Cluster cluster = *Cluster::Make(description);
  EXPECT_EQ(cluster.MeetingDepth(cluster.FindNode("n1"), cluster.FindNode("n2")), 3);
  EXPECT_EQ(cluster.MeetingDepth(cluster.FindNode("n1"), cluster.FindNode("n9")), 2);
}

TEST(SlurmConf, BlocksBecomeDomainsInsideLargerBlocks) {
  const Description description = Good(R"(
BlockName=b0 Nodes=a[0-1]
BlockName=b1 Nodes=a[2-3]
BlockName=b2 Nodes=a[4-5]
BlockSizes=2,4
)");
  EXPECT_THAT(description.levels, ElementsAre("block4", "domain"));
  EXPECT_THAT(Places(description),
              ElementsAre("a0 block4-0/b0", "a1 block4-0/b0", "a2 block4-0/b1", "a3 block4-0/b1",
                          "a4 block4-1/b2", "a5 block4-1/b2"));
}

TEST(SlurmConf, ErrorsStandAtTheirWord) {
  EXPECT_THAT(ErrorOf("SwitchName=s \\\n  Nodes=a[3-1] Bad=1\n"),
              AllOf(HasSubstr("f:2:3: Nodes: "), HasSubstr("f:2:16: Bad: unknown key")));
  EXPECT_THAT(ErrorOf("BlockName=b Nodes=a[1-4]\nBlockSizes=3,4\n"),
              HasSubstr("f:2:1: BlockSizes: 4 is not"));
  EXPECT_EQ(ErrorOf("SwitchName=a Nodes=n1\n\nSwitchName=b Nods=n2\n"),
            "f:3:14: Nods: unknown key — did you mean nodes?\n");
  EXPECT_THAT(ErrorOf("SwitchName=a Nodes=n1 \\\n n2\nLinkSpeed=2"),
              HasSubstr("f:2:2: n2: no KEY=VALUE"));
  EXPECT_THAT(ErrorOf("SwitchName=a Nodes=n[1-\n"),
              HasSubstr("f:1:14: Nodes: n[1-: a '[' is never closed"));
  EXPECT_THAT(ErrorOf("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1"),
              HasSubstr("f:2:1: b: node n1 lies in switch a"));
  EXPECT_THAT(ErrorOf("SwitchName=a Switches=b"), HasSubstr("there is no switch b"));
  EXPECT_THAT(ErrorOf("SwitchName=a Switches=b\nSwitchName=b Switches=a Nodes=n"),
              HasSubstr("circle"));
  EXPECT_THAT(ErrorOf("SwitchName=a Nodes=n\nSwitchName=a Nodes=m"),
              HasSubstr("two of this switch's name"));
  EXPECT_THAT(ErrorOf("SwitchName=a Switches=c\nSwitchName=b Switches=c\nSwitchName=c Nodes=n"),
              HasSubstr("f:2:1: b: switch c lies below a already"));
  EXPECT_THAT(ErrorOf("BlockName=a Nodes=n\nBlockSizes=2,3"),
              HasSubstr("3 is not a larger multiple"));
  EXPECT_THAT(ErrorOf("SwitchName=a"), HasSubstr("there are no nodes"));
  EXPECT_THAT(ErrorOf("SwitchName=a Nodes=n", {}), HasSubstr("--device KIND --devices N"));
}

TEST(SlurmYaml, TakesTheDefaultTopology) {
  constexpr char kYaml[] = R"(---
- topology: small
  cluster_default: false
  block:
    block_sizes:
      - 2
      - 4
    blocks:
      - block: b1
        nodes: n[1-2]
      - block: b2
        nodes: n[3-4]
- topology: big
  cluster_default: true
  tree:
    switches:
      - switch: root
        children: s[1-2]
      - switch: s1
        nodes: n[1-2]
      - switch: s2
        nodes: n[3-4]
- topology: none
  flat: true
)";
  EXPECT_THAT(Places(Good(kYaml)),
              ElementsAre("n1 root/s1/", "n2 root/s1/", "n3 root/s2/", "n4 root/s2/"));
  const std::string first =
      std::string(kYaml).substr(4, std::string(kYaml).find("- topology: big") - 4);
  EXPECT_THAT(Places(Good(first)),
              ElementsAre("n1 block4-0/b1", "n2 block4-0/b1", "n3 block4-0/b2", "n4 block4-0/b2"));
  EXPECT_THAT(ErrorOf("- topology: none\n  flat: true\n"),
              HasSubstr("one of them with tree or block"));
  EXPECT_THAT(ErrorOf("- topology: a\n  tree:\n    switches:\n      - {switch: s, nodes: {}}\n"),
              HasSubstr("f:4:28: nodes: must be names, not a section"));
}

TEST(Topograph, ModelsHaveSwitchesAndNvlinkDomains) {
  EXPECT_THAT(Places(Good(R"(# drawing
switches:
- name: sw3
  metadata: {region: us-west}
  switches: [sw21,sw22]
- name: sw21
  capacity_blocks: [cb11]
- name: sw22
  capacity_blocks: [cb12, cb13]
capacity_blocks:
- name: cb11
  type: GB200
  nvlink: nvl1
  nodes: ["n11-[1-2]"]
- name: cb12
  type: GB200
  nvlink: nvl2
  nodes: [n12-1]
- name: cb13
  type: H100
  nodes: [n13-1]
)")),
              ElementsAre("n11-1 sw3/sw21/nvl1", "n11-2 sw3/sw21/nvl1", "n12-1 sw3/sw22/nvl2",
                          "n13-1 sw3/sw22/"));
  EXPECT_THAT(Places(Good("{\n\"switches\": {\"leaf\": {\"nodes\": [\"a\", \"b\"]}},\n"
                          "\"nodes\": {\"a\": {\"attributes\": {\"nvlink\": \"x\"}}}}")),
              ElementsAre("a leaf/x", "b leaf/"));
  EXPECT_THAT(ErrorOf("switches:\n- name: s\n  capacity_blocks: [c]\n"),
              HasSubstr("there is no capacity block c"));
}

TEST(Topograph, ModelsOfNewerVersionsHaveBlocksBelowSwitches) {
  const std::string model = R"(switches:
  core:
    labels:
      topology.kubernetes.io/region: us-east
    switches:
    - leaf-1
    - leaf-2
  leaf-2: {}
  leaf-1:
    labels: {topology.kubernetes.io/zone: zone1}
blocks:
- switch: leaf-1
  nodes:
  - node[1117-1118]
  - node1120
  labels:
    accelerated.topology.nvidia.com/level-0: nvl-1
- switch: leaf-2
  nodes: ["srv[01-02]"]
  annotations:
    accelerator.topology.test/domain: nvl-2
    accelerator.topology.test/sub-domain: "rack02"
- nodes: ["cpu-1"]
)";
  EXPECT_THAT(Places(Good(model)),
              ElementsAre("cpu-1 //", "node1117 core/leaf-1/nvl-1", "node1118 core/leaf-1/nvl-1",
                          "node1120 core/leaf-1/nvl-1", "srv01 core/leaf-2/rack02",
                          "srv02 core/leaf-2/rack02"));
  EXPECT_THAT(ErrorOf("blocks:\n- switch: leaf\n  nodes: [a]\n"),
              HasSubstr("f:2:3: blocks: there is no switch leaf"));
  EXPECT_THAT(ErrorOf("blocks:\n- a\n"), HasSubstr("f:2:3: blocks: must be a section"));
}

TEST(Topograph, TypesOfBlocksAreKindsOfDevices) {
  const std::string model = R"(topology: "topology/tree"
switches:
- name: S1
  capacity_blocks: [CB1, CB2]
capacity_blocks:
- {name: CB1, type: GB200, nvlink: nvl1, nodes: [a, b]}
- {name: CB2, type: H100, nodes: [c]}
)";
  ImportOptions options;
  EXPECT_THAT(ErrorOf(model, options), HasSubstr("the number of devices — add --devices N"));
  options.devices = 4;
  std::vector<std::string> kinds;
  for (const Node& node : Good(model, options).nodes) kinds.push_back(node.kind);
  EXPECT_THAT(kinds, ElementsAre("gb200", "gb200", "h100"));
}

std::string KubernetesNode(const char* name, const char* labels, const char* rest) {
  return absl::StrCat(R"({"apiVersion": "v1", "kind": "Node", "metadata": {"name": ")", name,
                      R"(", "labels": {)", labels, R"(}}, )", rest, "}");
}

constexpr char kReady[] = R"("status": {
    "allocatable": {"cpu": "96", "nvidia.com/gpu": "8"},
    "conditions": [{"type": "MemoryPressure", "status": "False"},
                   {"type": "Ready", "status": "True"}]})";
constexpr char kLabels[] =
    R"("topology.kubernetes.io/zone": "us-a", "nvidia.com/gpu.clique": "c1.7",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "fabric.topograph.run/tier-0": "leaf1")";

TEST(Kubernetes, LevelsComeFromLabelsAndDevicesFromAllocatable) {
  const std::string list = absl::StrCat(
      R"({"apiVersion": "v1", "kind": "List", "items": [)", KubernetesNode("a", kLabels, kReady),
      ",",
      KubernetesNode("b", "", absl::StrCat(R"("spec": {"unschedulable": true}, )", kReady).c_str()),
      ",",
      KubernetesNode(
          "c", kLabels,
          absl::StrCat(
              R"("spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}, )",
              kReady)
              .c_str()),
      ",",
      KubernetesNode(
          "d", kLabels,
          absl::StrCat(R"("spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}, )",
                       kReady)
              .c_str()),
      ",", KubernetesNode("control", "", R"("status": {"allocatable": {"cpu": "4"}})"), "]}");
  const Description description = Good(list, {});
  EXPECT_THAT(description.levels, ElementsAre("zone", "tier0", "domain"));
  EXPECT_THAT(Places(description),
              ElementsAre("a us-a/leaf1/c1.7", "b //", "c us-a/leaf1/c1.7", "d us-a/leaf1/c1.7"));
  EXPECT_EQ(description.nodes[0].kind, "h100");
  EXPECT_EQ(description.nodes[0].devices, 8);
  EXPECT_EQ(description.nodes[1].kind, "gpu");
  std::vector<bool> healthy;
  for (const Node& node : description.nodes) healthy.push_back(node.healthy);
  EXPECT_THAT(healthy, ElementsAre(true, false, true, false));
}

TEST(Kubernetes, NodesThatSayTheyHaveNoDevicesGetNone) {
  const std::string list = absl::StrCat(
      R"({"apiVersion": "v1", "kind": "List", "items": [)",
      KubernetesNode("mig", "", R"("status": {"allocatable": {"nvidia.com/gpu": "0"}})"), ",",
      KubernetesNode("silent", "", R"("status": {"allocatable": {"cpu": "4"}})"), "]}");
  EXPECT_THAT(Places(Good(list)), ElementsAre("silent "));
}

TEST(Kubernetes, LabelsMayBeNamed) {
  ImportOptions options;
  options.labels = *ParseLabels({"room=no/such|topology.kubernetes.io/zone", "domain=absent"});
  const Description description = Good(KubernetesNode("a", kLabels, kReady), options);
  EXPECT_THAT(description.levels, ElementsAre("room", "domain"));
  EXPECT_THAT(Places(description), ElementsAre("a us-a/"));
  EXPECT_FALSE(ParseLabels({"room"}).ok());
  EXPECT_FALSE(ParseLabels({"=x"}).ok());
}

TEST(Kubernetes, ErrorsNameTheNode) {
  EXPECT_THAT(ErrorOf(R"({"apiVersion": )"), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf(R"({"apiVersion": "v1", "items": 7})"), HasSubstr("items: must be the list"));
  EXPECT_THAT(ErrorOf(R"({"apiVersion": "v1", "items": [{}]})"),
              HasSubstr("items[0].metadata.name"));
  EXPECT_THAT(
      ErrorOf(KubernetesNode("a", "", R"("status": {"allocatable": {"nvidia.com/gpu": "-3"}})")),
      HasSubstr("items[0] (a): status.allocatable"));
  EXPECT_THAT(ErrorOf(KubernetesNode("a", "", R"("status": {})"), {}),
              HasSubstr("no node has nvidia.com/gpu"));
  ImportOptions kubernetes;
  kubernetes.format = "kubernetes";
  EXPECT_THAT(ErrorOf(std::string(100000, '['), kubernetes), HasSubstr("not JSON"));
}

TEST(Kubernetes, ErrorsOfOtherTextsHaveTheirPlaces) {
  EXPECT_THAT(ErrorOf("{\"apiVersion\": \"v1\", \"items\": [\n  {},, {}]}"),
              HasSubstr("f:2:6: not JSON"));
  EXPECT_THAT(ErrorOf("apiVersion: v1\nitems: []\n"), HasSubstr("f:1:1: not JSON"));
  EXPECT_THAT(
      ErrorOf(R"({"apiVersion": "v1", "items": [{"kind": "Pod", "metadata": {"name": "p"}}]})"),
      HasSubstr("items[0]: a Pod is no node"));
}

TEST(SlurmYaml, SectionsThatAreNoneAreRefused) {
  EXPECT_THAT(ErrorOf("- topology: x\n  tree: 7\n"), HasSubstr("f:2:9: tree: must be a section"));
  EXPECT_THAT(ErrorOf("- topology: x\n  block: [1]\n"), HasSubstr("f:2:10: block: must be"));
  EXPECT_THAT(ErrorOf("- topology: x\n  tree: {switches: 9}\n"),
              HasSubstr("f:2:20: switches: must be a list, not 9"));
  EXPECT_THAT(ErrorOf("switches: 7\n"), HasSubstr("f:1:11: switches: must be a list, not 7"));
}

TEST(Format, IsToldFromTheTextOrGiven) {
  EXPECT_THAT(Places(Good("nodes:\n- {name: n0, device: cpu, devices: 1}\n")), ElementsAre("n0 "));
  EXPECT_THAT(Places(Good("{\n  \"nodes\": [\n    {\"name\": \"n0\", \"device\": \"cpu\", "
                          "\"devices\": 1}\n  ]\n}\n")),
              ElementsAre("n0 "));
  EXPECT_THAT(ErrorOf(""), HasSubstr("f:1:1: nodes: required key is missing"));
  EXPECT_THAT(ErrorOf("\xff\xfe"), HasSubstr("not UTF-8"));
  ImportOptions options = EightH100();
  options.format = "slurm";
  EXPECT_THAT(ErrorOf("nodes: []", options), HasSubstr("f:1:1: nodes:: no KEY=VALUE"));
  EXPECT_THAT(ErrorOf("SwitchName=\xff", options), HasSubstr("not UTF-8"));
  options.format = "csv";
  EXPECT_THAT(ErrorOf("", options), HasSubstr("unknown format csv — the formats are topology, "));
}

TEST(KindOfProduct, IsTheChipsName) {
  EXPECT_EQ(KindOfProduct("NVIDIA-H100-80GB-HBM3"), "h100");
  EXPECT_EQ(KindOfProduct("NVIDIA H200"), "h200");
  EXPECT_EQ(KindOfProduct("Tesla V100-SXM2-32GB"), "v100");
  EXPECT_EQ(KindOfProduct("NVIDIA RTX A6000"), "rtx-a6000");
  EXPECT_EQ(KindOfProduct("NVIDIA GB200"), "gb200");
  EXPECT_EQ(KindOfProduct(""), "gpu");
}

}  // namespace
}  // namespace strata::topology
