#include "worker/trainer/watched_file_system.h"

#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/testing.h"
#include "common/clock.h"
#include "gtest/gtest.h"
#include "worker/shared/progress_reader.h"

namespace strata::worker {
namespace {

using checkpoint::TemporaryFolder;

// Each look is a second later.
class SteppingClock final : public common::Clock {
 public:
  double Now() const override { return ++now_; }

 private:
  mutable double now_ = 0;
};

class WatchedFileSystemTest : public testing::Test {
 protected:
  WatchedFileSystemTest()
      : descriptor_(memfd_create("progress", MFD_CLOEXEC)),
        progress_(
            *ProgressWriter::Create(descriptor_, {.label_capacity = 1, .ring_bytes = 64}, &clock_)),
        reader_(*ProgressReader::Open(descriptor_)),
        files_(checkpoint::PosixFileSystem(), progress_.get()) {
    const StorageOperation first(progress_.get());  // from here on the clock is its operations'
  }
  ~WatchedFileSystemTest() override { close(descriptor_); }

  // Begin and end of just one operation, which succeeds and is over then.
  void ExpectOne(const char* name, const std::function<bool()>& operation) {
    const double before = reader_->storage_tick();
    EXPECT_TRUE(operation()) << name;
    EXPECT_EQ(reader_->storage_tick(), before + 2) << name;
    EXPECT_FALSE(reader_->in_storage_operation()) << name;
  }

  const SteppingClock clock_;
  const int descriptor_;
  const std::unique_ptr<ProgressWriter> progress_;
  const std::unique_ptr<ProgressReader> reader_;
  WatchedFileSystem files_;
  const TemporaryFolder folder_;
};

TEST_F(WatchedFileSystemTest, EachOperationIsSeen) {
  const std::string sub = folder_.path() + "/sub", a = sub + "/a", b = sub + "/b";
  const std::string other = folder_.path() + "/other", third = folder_.path() + "/third";
  ExpectOne("CreateFolder", [&] { return files_.CreateFolder(sub).ok(); });
  std::unique_ptr<checkpoint::WritableFile> written;
  ExpectOne("CreateFile", [&] { return (written = *files_.CreateFile(a)) != nullptr; });
  ExpectOne("Append", [&] { return written->Append("text", 4).ok(); });
  ExpectOne("Append", [&] { return written->Append("text", 4).ok(); });
  ExpectOne("Sync", [&] { return written->Sync().ok(); });
  ExpectOne("Close", [&] { return written->Close().ok(); });
  ExpectOne("RenameFile", [&] { return files_.RenameFile(a, b).ok(); });
  std::unique_ptr<checkpoint::ReadableFile> read;
  ExpectOne("OpenFile", [&] { return (read = *files_.OpenFile(b)) != nullptr; });
  char bytes[4];
  ExpectOne("ReadAt", [&] { return read->ReadAt(2, 4, bytes).ok(); });
  ExpectOne("ReadWhole", [&] { return files_.ReadWhole(b, 100).value() == "texttext"; });
  ExpectOne("Exists", [&] { return files_.Exists(b); });
  ExpectOne("List", [&] { return files_.List(sub)->size() == 1; });
  ExpectOne("IsFolder", [&] { return files_.IsFolder(sub).value(); });
  ExpectOne("SyncFolder", [&] { return files_.SyncFolder(sub).ok(); });
  ExpectOne("RenameFolder", [&] { return files_.RenameFolder(sub, other).ok(); });
  ExpectOne("PublishFolder", [&] { return files_.PublishFolder(other, third).ok(); });
  ExpectOne("RemoveAll", [&] { return files_.RemoveAll(third).ok(); });
}

// An agent sees it while it lasts.
TEST_F(WatchedFileSystemTest, AnOperationIsInFlightWhileItLasts) {
  {
    const StorageOperation first(progress_.get());
    const StorageOperation second(progress_.get());
    EXPECT_TRUE(reader_->in_storage_operation());
  }
  EXPECT_FALSE(reader_->in_storage_operation());
}

}  // namespace
}  // namespace strata::worker
