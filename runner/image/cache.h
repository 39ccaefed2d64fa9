/*
 * runner/image/cache.h -- packed blobs of images, kept between runs of the same project.
 *
 * The key is in the memory of the serving process alone, and another key is derived from it for each project and blob. So nobody can read the files
 * once that process has ended, and a run of another project never can. Before a caller takes a blob from here, it has fetched the manifest that names the
 * blob, with the run's token. So the registry decides each use.
 */
#pragma once

#include "base/owned.h"
#include "runner/image/plan.h"

struct image_cache;
/** An empty cache in the folder `name` below `parent`; what an earlier process has left there is removed. `bytes_max`: of all files. */
RESULT image_cache_new(int parent, const char *name, int64_t bytes_max, struct image_cache **cache_out, struct error *err);
/** Writes the blob to the new file `name` in `folder`. ERROR_NOT_FOUND: it is not here, or damaged, and then no file is left. */
RESULT image_cache_take(const struct image_cache *cache, const char *project, const struct image_part *part, int folder,
                        const char *name, struct error *err);
/** Keeps a blob that was compared with its digest. The blobs that were used least recently make room. A failure only means that it is not kept. */
RESULT image_cache_keep(const struct image_cache *cache, const char *project, const struct image_part *part, int folder,
                        const char *name, struct error *err);
/** Removes all of it. */
void image_cache_remove(struct image_cache *cache);
/** Forgets the key; the files stay. */
void image_cache_free(struct image_cache *cache);
DEFINE_OWNED(image_cache);
