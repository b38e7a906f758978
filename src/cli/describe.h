// Descriptions of files for `espalier inspect`: one row a format, each made into an object that --json prints as it is
// and that people get as lines and tables. A new format is a row in describe.cc.
#pragma once
#include <span>
#include <string>

#include "base/json.h"
#include "cli/terminal.h"
#include "models/arch_spec.h"
#include "tensor/tensor.h"
#include "text/tokenizer.h"

namespace espalier {

struct DescribeOptions {
  bool verify = false;  ///< read everything: checksums, ids, NaN
};

struct FileKind {
  const char* name;     ///< "model", "token shard", ...
  const char* summary;  ///< for the message that says what is read
  bool (*matches)(const std::string& path);
  OrderedJson (*describe)(Terminal& terminal, const std::string& path, const DescribeOptions& options);
};

/// In the order in which they are tried.
std::span<const FileKind> file_kinds();

/// {"kind", "path", ...}. Throws kNotFound where there is nothing at `path` (nor a model of that id in the cache),
/// kUnsupported naming what we read, and what the readers throw.
OrderedJson describe(Terminal& terminal, const std::string& path, const DescribeOptions& options);

// describe_model.cc
OrderedJson describe_model(Terminal& terminal, const std::string& folder, const DescribeOptions& options);
OrderedJson describe_safetensors(Terminal& terminal, const std::string& path, const DescribeOptions& options);
OrderedJson describe_config(Terminal& terminal, const std::string& path, const DescribeOptions& options);
OrderedJson describe_spec(const ArchSpec& spec);
OrderedJson describe_vocabulary(const Tokenizer& tokenizer);
OrderedJson describe_shape(const Shape& shape);
OrderedJson describe_tokenizer(Terminal& terminal, const std::string& path, const DescribeOptions& options);

// describe_gguf.cc
OrderedJson describe_gguf(Terminal& terminal, const std::string& path, const DescribeOptions& options);

// describe_data.cc
OrderedJson describe_shard(Terminal& terminal, const std::string& path, const DescribeOptions& options);
OrderedJson describe_shards(Terminal& terminal, const std::string& folder, const DescribeOptions& options);
OrderedJson describe_checkpoint(Terminal& terminal, const std::string& folder, const DescribeOptions& options);
OrderedJson describe_run(Terminal& terminal, const std::string& folder, const DescribeOptions& options);
OrderedJson describe_recipe(Terminal& terminal, const std::string& path, const DescribeOptions& options);

}  // namespace espalier
