// Text to tokens and back, by a Hugging Face tokenizer.json: token for token what the `tokenizers`
// library gives with add_special_tokens=False.
//
// Supported: BPE, over bytes (GPT-2, Llama 3, Qwen) and over characters with byte fallback
// (Llama 2, Mistral, Gemma), with the normalizers, pre-tokenizers and decoders that such files use.
// Whatever else a file asks for is refused by its name when it is loaded, never approximated.
// Truncation, padding and the post-processor (which adds BOS and EOS) of a file are not applied;
// what it puts before a text can be asked for.
#ifndef STRATA_DATA_TOKENIZER_TOKENIZER_H_
#define STRATA_DATA_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace strata::data {

struct TokenizerParts;
class DecoderRun;

// Immutable after loading; any number of threads may use it at once. A text is encoded on the
// calling thread: whoever has many documents and cores calls it from several threads.
class Tokenizer {
 public:
  // `path` is a folder with tokenizer.json (and tokenizer_config.json, special_tokens_map.json,
  // config.json, generation_config.json, chat_template.jinja where it has them), or with GPT-2's
  // encoder.json and vocab.bpe, or vocab.json and merges.txt; or the path of a tokenizer.json,
  // whose folder is then looked at for the others.
  // NotFound: no such file. InvalidArgument: it is damaged or contradicts itself. Unimplemented: it
  // asks for something that is not supported. Messages start with the file's path.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> Load(const std::string& path);
  // Tokens that are single bytes: 256 of them, none special. It encodes any bytes, UTF-8 or not.
  static std::shared_ptr<const Tokenizer> Bytes();

  explicit Tokenizer(std::unique_ptr<const TokenizerParts> parts);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Appends the tokens of `text`. Added tokens that stand in the text become their ids; no BOS or
  // EOS is added. Time grows as n log n, memory as about 40 n at most, also for a text without a
  // space. InvalidArgument: the text is not UTF-8 (it is never mended: what a file holds must not
  // turn into something else unnoticed), or is 2^31 bytes or longer. ResourceExhausted: a regular
  // expression of the tokenizer exceeds its limits on this text. On errors `tokens` is unchanged.
  absl::Status Encode(std::string_view text, std::vector<int32_t>* tokens) const;
  // The text of tokens; ids without a token are left out, bytes that are not UTF-8 become U+FFFD.
  // `skip_special`: without special tokens. (Added tokens that the file wants normalized come back
  // normalized; those that then are not a special token's text are not skipped. So do
  // `tokenizers`.)
  std::string Decode(absl::Span<const int32_t> tokens, bool skip_special) const;

  // 1 + the largest id of the vocabulary and the added tokens. A model's embedding may be larger.
  int64_t vocabulary() const;
  // The id of a token's literal text as the file spells it ("Ġthe"), special or not.
  std::optional<int32_t> Find(std::string_view token) const;
  // A token's literal text; empty if there is none. Lives as long as the tokenizer.
  std::string_view Text(int32_t id) const;
  bool IsSpecial(int32_t id) const;
  // Whether there is a token with this id.
  bool Has(int32_t id) const;

  // What stands after each document of plain text. A chat model's eos_token is often its end of
  // turn (<|im_end|>, <|eot_id|>), while the base model learnt that documents end with another
  // token, which the vocabulary still holds. So: eos_token if it is one of the tokens that base
  // models end documents with (<|end_of_text|>, <|endoftext|>, <｜end▁of▁sentence｜>, <eos>, </s>);
  // else the first of these, in this order, that the vocabulary has; else eos_token; else none.
  std::optional<int32_t> end_of_text() const;
  // What the file's post-processor puts before a text (BOS), as its template says; often nothing.
  const std::vector<int32_t>& text_start() const;
  // What ends generated text, ascending: eos_token_id of generation_config.json (else of
  // config.json), eos_token and end_of_text(). If neither file names any, also the end-of-turn
  // tokens that the vocabulary has: <|im_end|>, <|eot_id|>, <end_of_turn>.
  const std::vector<int32_t>& end_of_generation() const;

  // The Jinja text of tokenizer_config.json (of several the one named "default") or of
  // chat_template.jinja, which has precedence; empty: none.
  const std::string& chat_template() const;
  // Texts of the tokens that templates refer to; empty: the file names none.
  const std::string& bos_token() const;
  const std::string& eos_token() const;
  const std::string& unk_token() const;
  const std::string& pad_token() const;

 private:
  friend class StreamDecoder;
  // What a token becomes as text; none: there is no such token, or it is to be left out.
  std::optional<std::string_view> Decoded(int32_t id, bool skip_special) const;

  const std::unique_ptr<const TokenizerParts> parts_;
};

// Turns tokens into text as they are generated. The pieces together are what Decode() gives for all
// tokens; what later tokens may still change (half a UTF-8 character) is held back.
class StreamDecoder {
 public:
  StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special);
  ~StreamDecoder();

  // The text that is certain now and was not before; often empty.
  std::string Add(int32_t token);
  // The rest. Nothing may be added afterwards.
  std::string Finish();

 private:
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const bool skip_special_;
  const std::unique_ptr<DecoderRun> run_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_TOKENIZER_H_
