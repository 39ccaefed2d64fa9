#include "runner/image/layout.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

#define INDEX_MAX  (1 << 20)
#define PIECE_SIZE 65536

struct image_layout {
    int folder; /* blobs/sha256 */
    struct image_part manifest;
    struct image_source source;
};

/* Appends a file that has this digest. */
static struct result read_blob(int folder, const struct image_part *part, struct buffer *text, struct error *err)
{
    struct digest wanted, digest;
    OWNED_FD file = -1;
    uint8_t *place = NULL;
    uint64_t size = 0;

    TRY(file_open_at(folder, image_part_name(part), O_RDONLY | O_NONBLOCK, 0, &file, err));
    TRY(file_size(file, &size, err));
    if (size > text->maximum) return failure(err, ERROR_LIMIT, "the blob %.80s is too large", part->digest);
    TRY(buffer_reserve(text, (size_t)size, &place, err));
    TRY(file_read_at(file, place, (size_t)size, 0, err));
    text->length += (size_t)size;
    TRY(digest_parse(bytes_of_text(part->digest), &wanted, err));
    digest = digest_of(DIGEST_SHA256, (struct bytes){place, (size_t)size});
    return digest_equal(&wanted, &digest) ? SUCCESS
                                          : failure(err, ERROR_CORRUPT, "%.80s does not match its digest", part->digest);
}

static struct result give_manifest(void *context, struct buffer *text, struct error *err)
{
    const struct image_layout *layout = context;

    return read_blob(layout->folder, &layout->manifest, text, err);
}

static struct result copy_hashed(int from, int to, const struct image_part *part, struct hasher *hasher, struct error *err)
{
    uint8_t piece[PIECE_SIZE];
    size_t got = 0;

    for (int64_t at = 0;; at += (int64_t)got) {
        TRY(file_read_some(from, piece, sizeof piece, (uint64_t)at, &got, err));
        if (got == 0) return SUCCESS;
        if (at + (int64_t)got > part->size)
            return failure(err, ERROR_CORRUPT, "%.80s is larger than its manifest says", part->digest);
        hasher_add(hasher, (struct bytes){piece, got});
        TRY(file_write_all(to, piece, got, err));
    }
}

static struct result give_blob(void *context, const struct image_part *part, int folder, const char *name, struct error *err)
{
    const struct image_layout *layout = context;
    OWNED(hasher) *hasher = NULL;
    struct digest wanted;
    OWNED_FD from = -1;
    OWNED_FD to = -1;

    TRY(digest_parse(bytes_of_text(part->digest), &wanted, err));
    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    TRY(file_open_at(layout->folder, image_part_name(part), O_RDONLY | O_NONBLOCK, 0, &from, err));
    TRY(file_open_at(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, &to, err));
    TRY(copy_hashed(from, to, part, hasher, err));
    const struct digest digest = hasher_digest(hasher);
    return digest_equal(&wanted, &digest) ? SUCCESS
                                          : failure(err, ERROR_CORRUPT, "%.80s does not match its digest", part->digest);
}

static struct result read_index(struct image_layout *layout, const char *path, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(INDEX_MAX);
    OWNED_JSON json = NULL;
    struct digest digest;
    char name[1024]; /* a path of this machine */

    (void)snprintf(name, sizeof name, "%.1000s/index.json", path);
    TRY(file_read(name, &text, err));
    TRY(json_read_any_number(buffer_bytes(&text), INDEX_MAX, &json, err));
    const json_t *manifests = json_object_get(json, "manifests");
    const char *text_of_digest = json_text_of(json_array_get(manifests, 0), "digest");
    if (json_array_size(manifests) != 1 || text_of_digest == NULL)
        return failure(err, ERROR_INVALID, "%.160s is no image layout with exactly one image", path);
    TRY(digest_parse(bytes_of_text(text_of_digest), &digest, err));
    if (digest.algorithm != DIGEST_SHA256)
        return failure(err, ERROR_INVALID, "%.160s: its image has another digest than sha256", path);
    (void)snprintf(layout->manifest.digest, sizeof layout->manifest.digest, "%s", text_of_digest);
    (void)snprintf(name, sizeof name, "%.1000s/blobs/sha256", path);
    return file_open(name, O_RDONLY | O_DIRECTORY, 0, &layout->folder, err);
}

struct result image_layout_open(const char *path, struct image_layout **layout_out, struct error *err)
{
    OWNED(image_layout) *layout = memory_zeroed(1, sizeof *layout);

    if (layout == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an image");
    layout->folder = -1;
    layout->source = (struct image_source){.manifest = give_manifest, .blob = give_blob, .context = layout};
    TRY(read_index(layout, path, err));
    *layout_out = GIVE(layout);
    return SUCCESS;
}

const struct image_source *image_layout_source(const struct image_layout *layout)
{
    return &layout->source;
}

void image_layout_free(struct image_layout *layout)
{
    if (layout == NULL) return;
    file_close_owned(&layout->folder);
    free(layout);
}
