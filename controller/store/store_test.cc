#include "controller/store/store.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/store/in_memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// The disk, as SQLite sees it: these stand before the C library's functions.
namespace {
std::atomic<int> write_error{0};  // 0, or the errno with which every write fails
std::atomic<int> sync_error{0};
std::atomic<int> syncs{0};

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}
}  // namespace

extern "C" ssize_t pwrite64(int file, const void* bytes, size_t size, off64_t offset) {
  static const auto next = Next<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64");
  if (write_error != 0) {
    errno = write_error;
    return -1;
  }
  return next(file, bytes, size, offset);
}

extern "C" int fdatasync(int file) {
  static const auto next = Next<int (*)(int)>("fdatasync");
  ++syncs;
  if (sync_error != 0) {
    errno = sync_error;
    return -1;
  }
  return next(file);
}

extern "C" int fsync(int file) {
  static const auto next = Next<int (*)(int)>("fsync");
  ++syncs;
  if (sync_error != 0) {
    errno = sync_error;
    return -1;
  }
  return next(file);
}

namespace strata::controller {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class StoreTest : public testing::Test {
 protected:
  StoreTest()
      : folder_(absl::StrCat(testing::TempDir(), "/",
                             testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder_);
  }
  ~StoreTest() override {
    write_error = 0;
    sync_error = 0;
    fs::remove_all(folder_);
  }
  std::unique_ptr<Store> Open() {
    auto store = Store::Open(folder_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  static std::map<std::string, std::string> Records(Store& store) {
    std::map<std::string, std::string> found;
    const auto records = store.Load();
    EXPECT_TRUE(records.ok()) << records.status();
    if (!records.ok()) return found;
    for (const Write& record : *records) found[record.table + "/" + record.key] = record.value;
    return found;
  }
  // Runs SQL on the closed database.
  void Execute(const char* sql) const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open((folder_ + "/controller.db").c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(database);
  }
  std::string database() const { return folder_ + "/controller.db"; }

  const std::string folder_;
};

TEST_F(StoreTest, RecordsAreThereAfterReopening) {
  const std::string binary("\0\xff\n'\"", 5);
  {
    const auto store = Open();
    ASSERT_TRUE(store->Commit({{"jobs", "jobs/a", "1"}, {"meta", "term", binary}}).ok());
    ASSERT_TRUE(store->Commit({{"jobs", "jobs/a", "2"}, {"jobs", "jobs/b", ""}}).ok());
    ASSERT_TRUE(
        store->Commit({{"jobs", "jobs/c", "3"}, {"jobs", "jobs/c", "", /*erase=*/true}}).ok());
    ASSERT_TRUE(store->Commit({}).ok());
  }
  const auto store = Open();
  const std::map<std::string, std::string> expected = {
      {"jobs/jobs/a", "2"}, {"jobs/jobs/b", ""}, {"meta/term", binary}};
  EXPECT_EQ(Records(*store), expected);
}

TEST_F(StoreTest, NobodyElseMayReadIt) {
  const auto mode = [](const std::string& path) {
    return std::filesystem::status(path).permissions();
  };
  const std::string directory = folder_ + "/new";
  const auto store = Store::Open(directory);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->Commit({{"meta", "a", "b"}}).ok());
  using std::filesystem::perms;
  EXPECT_EQ(mode(directory), perms::owner_all);
  for (const char* file : {"/controller.db", "/controller.db-wal", "/controller.lock"}) {
    EXPECT_EQ(mode(directory + file), perms::owner_read | perms::owner_write) << file;
  }
}

TEST_F(StoreTest, EveryCommitIsSynced) {
  const auto store = Open();
  for (int i = 0; i < 5; ++i) {
    const int before = syncs;
    ASSERT_TRUE(store->Commit({{"jobs", absl::StrCat("jobs/", i), "x"}}).ok());
    EXPECT_GT(syncs, before);
  }
}

TEST_F(StoreTest, SecondControllerOnTheSameDirectoryFails) {
  const auto store = Open();
  const auto second = Store::Open(folder_);
  ASSERT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(folder_ + " is in use"));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(absl::StrCat(getpid())));
}

TEST_F(StoreTest, DirectoryThatCannotBeMadeIsNamed) {
  const auto store = Store::Open("/proc/no/such");
  ASSERT_EQ(store.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("/proc/no/such"));
}

TEST_F(StoreTest, FileThatIsNoDatabaseIsRefused) {
  fs::create_directories(folder_);
  std::ofstream(database()) << std::string(8192, 'x');
  const auto store = Store::Open(folder_);
  ASSERT_EQ(store.status().code(), absl::StatusCode::kDataLoss) << store.status();
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("controller.db is damaged"));
}

TEST_F(StoreTest, DatabaseWithDamagedPagesIsRefused) {
  {
    const auto store = Open();
    std::vector<Write> writes;
    for (int i = 0; i < 500; ++i) {
      writes.push_back({"jobs", absl::StrCat("jobs/", i), std::string(200, 'v')});
    }
    ASSERT_TRUE(store->Commit(writes).ok());
  }
  ASSERT_GT(fs::file_size(database()), 40000u);
  std::fstream file(database(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 * 4);
  file << std::string(4096, '\x5a');
  file.close();
  const auto store = Store::Open(folder_);
  ASSERT_EQ(store.status().code(), absl::StatusCode::kDataLoss) << store.status();
  EXPECT_THAT(std::string(store.status().message()), HasSubstr(database()));
}

TEST_F(StoreTest, OtherSchemaVersionIsRefused) {
  Open().reset();
  Execute("PRAGMA user_version=99");
  const auto store = Store::Open(folder_);
  ASSERT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition) << store.status();
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("schema version 99"));
}

TEST_F(StoreTest, DatabaseOfAnotherProgramIsRefused) {
  fs::create_directories(folder_);
  Execute("CREATE TABLE other (x)");
  const auto store = Store::Open(folder_);
  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition) << store.status();
}

TEST_F(StoreTest, FullDiskWritesNothingAndALaterCommitSucceeds) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->Commit({{"jobs", "jobs/a", "1"}}).ok());
    write_error = ENOSPC;
    const absl::Status full =
        store->Commit({{"jobs", "jobs/a", "2"}, {"jobs", "jobs/b", std::string(100000, 'b')}});
    EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
    EXPECT_THAT(Records(*store), testing::ElementsAre(testing::Pair("jobs/jobs/a", "1")));
    write_error = 0;
    ASSERT_TRUE(store->Commit({{"jobs", "jobs/c", "3"}}).ok());
  }
  const std::map<std::string, std::string> expected = {{"jobs/jobs/a", "1"}, {"jobs/jobs/c", "3"}};
  EXPECT_EQ(Records(*Open()), expected);
}

TEST_F(StoreTest, AfterAFailedSyncNothingIsTriedAgain) {
  const auto store = Open();
  ASSERT_TRUE(store->Commit({{"jobs", "jobs/a", "1"}}).ok());
  sync_error = EIO;
  const absl::Status failed = store->Commit({{"jobs", "jobs/a", "2"}});
  EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable) << failed;
  sync_error = 0;
  EXPECT_EQ(store->Commit({{"jobs", "jobs/a", "3"}}), failed);
}

TEST_F(StoreTest, AfterAFailedWriteNothingIsTriedAgain) {
  const auto store = Open();
  write_error = EIO;
  const absl::Status failed = store->Commit({{"jobs", "jobs/a", "2"}});
  EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable) << failed;
  write_error = 0;
  EXPECT_EQ(store->Commit({{"jobs", "jobs/a", "3"}}), failed);
}

// Commits batch after batch of two records, and tells of each one that was acknowledged.
[[noreturn]] void CommitForever(const std::string& folder, int first, int pipe) {
  auto store = Store::Open(folder);
  if (!store.ok()) _exit(2);
  for (int batch = first;; ++batch) {
    const std::string key = absl::StrCat("jobs/", batch);
    if (!(*store)->Commit({{"a", key, std::string(600, 'a')}, {"b", key, "b"}}).ok()) _exit(3);
    if (write(pipe, &batch, sizeof(batch)) != sizeof(batch)) _exit(4);
  }
}

TEST_F(StoreTest, AcknowledgedCommitsSurviveKillAndBatchesAreWhole) {
  int acknowledged = -1;
  for (int round = 0; round < 6; ++round) {
    int ends[2] = {};
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) CommitForever(folder_, acknowledged + 1, ends[1]);
    close(ends[1]);
    const int goal = acknowledged + 20 + 7 * round;
    int batch = 0;
    while (acknowledged < goal && read(ends[0], &batch, sizeof(batch)) == sizeof(batch)) {
      acknowledged = batch;
    }
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "exit " << WEXITSTATUS(status);
    while (read(ends[0], &batch, sizeof(batch)) == sizeof(batch)) acknowledged = batch;
    close(ends[0]);

    const auto store = Open();
    const auto found = Records(*store);
    for (int i = 0; i <= acknowledged; ++i) {
      ASSERT_EQ(found.count(absl::StrCat("a/jobs/", i)), 1u) << i << " of " << acknowledged;
    }
    for (const auto& [key, value] : found) {
      const std::string twin = absl::StrCat(key[0] == 'a' ? "b" : "a", key.substr(1));
      ASSERT_EQ(found.count(twin), 1u) << key;
    }
    ASSERT_LE(found.size(), 2u * (acknowledged + 2)) << "one batch was under way at most";
  }
}

TEST(InMemoryStore, KeepsRecordsAndFailsOnRequest) {
  InMemoryStore store;
  ASSERT_TRUE(store.Commit({{"jobs", "jobs/a", "1"}, {"jobs", "jobs/b", "2"}}).ok());
  ASSERT_TRUE(store.Commit({{"jobs", "jobs/b", "", /*erase=*/true}}).ok());
  store.set_before_commit([] { return absl::ResourceExhaustedError("full"); });
  EXPECT_EQ(store.Commit({{"jobs", "jobs/c", "3"}}).code(), absl::StatusCode::kResourceExhausted);
  ASSERT_EQ(store.Load()->size(), 1u);
  EXPECT_EQ(store.Load()->front().key, "jobs/a");
  EXPECT_EQ(store.commits(), 2);
}

}  // namespace
}  // namespace strata::controller
