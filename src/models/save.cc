#include "models/save.h"

#include <fcntl.h>
#include <stdio.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "formats/safetensors_writer.h"
#include "models/registry.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

/// A tensor to be written, and the parts of one weight that it is made of.
struct Piece {
  const Param* param;
  std::vector<TensorPart> parts;
  int64_t rows, cols;  ///< of all parts; cols 0: a vector

  const std::string& name() const { return parts[0].name; }
  bool transposed() const { return parts[0].transposed; }
};

std::vector<Piece> pieces_of(const Decoder& model) {
  const Family& f = family(model.spec().family, "writing a model");
  std::vector<Piece> pieces;
  for (const Param& p : model.params())
    for (TensorPart& part : f.parts(model.spec(), p.name)) {
      const bool vector = p.shape().rank() == 1;
      if (part.rows == 0) part.rows = p.shape()[0];
      if (pieces.empty() || pieces.back().param != &p || pieces.back().name() != part.name)
        pieces.push_back({&p, {}, part.their_rows ? part.their_rows : part.rows, vector ? 0 : p.shape()[1]});
      pieces.back().parts.push_back(std::move(part));
    }
  return pieces;
}

Shape shape_of(const Piece& piece) {
  if (piece.cols == 0) return {piece.rows};
  return piece.transposed() ? Shape{piece.cols, piece.rows} : Shape{piece.rows, piece.cols};
}

template <class M>
M rows_of(M mat, bool vector, int64_t row, int64_t rows) {
  return vector ? sub_cols(mat, row, rows) : sub_rows(mat, row, rows);
}

Tensor convert(Context& ctx, const Piece& piece, DType dtype) {
  const Tensor& source = piece.param->master ? piece.param->master : piece.param->compute_copy;
  const bool vector = piece.cols == 0;
  Tensor out(dtype, shape_of(piece));
  if (!piece.transposed()) {
    for (const TensorPart& part : piece.parts)
      kernels(ctx).copy(ctx, {.src = rows_of<ConstMat>(source.mat(), vector, part.row, part.rows),
                              .dst = rows_of(out.mat(), vector, part.their_row, part.rows)});
    return out;
  }
  Tensor straight(DType::kF32, {piece.rows, piece.cols}), turned(DType::kF32, {piece.cols, piece.rows});
  kernels(ctx).copy(ctx, {.src = sub_rows(source.mat(), piece.parts[0].row, piece.rows), .dst = straight.mat()});
  const float* s = straight.as<float>();
  float* t = turned.as<float>();
  for (int64_t c = 0; c < piece.cols; ++c)
    for (int64_t r = 0; r < piece.rows; ++r) t[c * piece.rows + r] = s[r * piece.cols + c];
  kernels(ctx).copy(ctx, {.src = std::as_const(turned).mat(), .dst = out.mat()});
  return out;
}

bool is_weights(const fs::path& file) {
  const std::string name = file.filename().string();
  return name == "config.json" || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
}

// Puts `from` in the place of `to`, with to's other files in it, in one step.
void swap_folders(const fs::path& from, const fs::path& to) {
  if (!fs::exists(to)) return fs::rename(from, to);
  for (const auto& entry : fs::directory_iterator(to))
    if (!is_weights(entry.path()))
      fs::copy(entry.path(), from / entry.path().filename(), fs::copy_options::recursive);
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    // A file system without exchange: the old folder steps aside first.
    const fs::path old = to.string() + ".old";
    fs::rename(to, old);
    fs::rename(from, to);
    fs::rename(old, from);
  }
  fs::remove_all(from);
}

/// Removes a folder under construction, also where its writing failed.
struct Staging {
  const std::string path;
  ~Staging() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

}  // namespace

void save_model(Context& ctx, const Decoder& model, const std::string& folder_given, const SaveOptions& options) {
  const std::string folder = folder_given.substr(0, folder_given.find_last_not_of('/') + 1);
  if (folder.empty())
    throw error(Code::kUsage, "writing a model to '{}': expected the name of a folder", folder_given);
  const std::string temporary = folder + ".tmp";
  const Staging removed{temporary};
  std::error_code status;
  fs::remove_all(temporary, status);
  if (!fs::create_directories(temporary, status))
    throw error(Code::kIo, "creating folder {}: {}", temporary, status.message());
  const std::vector<Piece> pieces = pieces_of(model);
  std::vector<PlannedTensor> plan;
  for (const Piece& piece : pieces) plan.push_back({piece.name(), options.dtype, shape_of(piece)});
  SafetensorsFolderWriter writer(temporary, plan,
                                 {.max_shard_bytes = options.max_shard_bytes, .file = {.sync = options.sync}});
  for (const Piece& piece : pieces) writer.write(piece.name(), convert(ctx, piece, options.dtype));
  writer.finish();
  write_file_atomic(temporary + "/config.json", write_config(model.spec(), options.dtype).dump(2) + "\n");
  try {
    swap_folders(temporary, folder);
  } catch (const fs::filesystem_error& e) {  // the edge of the standard library
    const bool full = e.code() == std::errc::no_space_on_device;
    throw error(full ? Code::kNoSpace : Code::kIo, "putting the model written at {} in the place of {}: {}", temporary,
                folder, e.code().message());
  }
}

}  // namespace espalier
