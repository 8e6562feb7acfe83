// Encodes texts in rounds: tokenizer_bench TOKENIZER TEXTS THREADS. TEXTS is a file of texts, each
// behind its length as a 32-bit number. Says "ready"; then, for each line on standard input,
// encodes all of them and prints seconds, processor seconds and tokens. tokenizer_bench.py is what
// asks.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace strata::data {
namespace {

std::vector<std::string> ReadTexts(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> texts;
  uint32_t size = 0;
  while (file.read(reinterpret_cast<char*>(&size), sizeof(size))) {
    texts.emplace_back(size, '\0');
    file.read(texts.back().data(), size);
  }
  return texts;
}

// Threads take one text after the other; the number of tokens, or -1 after an error.
int64_t EncodeAll(const Tokenizer& tokenizer, const std::vector<std::string>& texts, int threads) {
  std::atomic<size_t> next = 0;
  std::atomic<int64_t> tokens = 0;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    std::vector<int32_t> encoded;
    for (size_t i = next++; i < texts.size(); i = next++) {
      encoded.clear();
      if (!tokenizer.Encode(texts[i], &encoded).ok()) failed = true;
      tokens += static_cast<int64_t>(encoded.size());
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return failed ? -1 : tokens.load();
}

int Main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: tokenizer_bench TOKENIZER TEXTS THREADS\n";
    return 2;
  }
  const auto tokenizer = Tokenizer::Load(argv[1]);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status().message() << "\n";
    return 2;
  }
  const std::vector<std::string> texts = ReadTexts(argv[2]);
  const int threads = std::atoi(argv[3]);
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t cpu_begin = std::clock();
    const int64_t tokens = EncodeAll(**tokenizer, texts, threads);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const double cpu_seconds = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
    std::cout << seconds.count() << " " << cpu_seconds << " " << tokens << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace strata::data

int main(int argc, char** argv) { return strata::data::Main(argc, argv); }
