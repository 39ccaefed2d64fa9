#include "runner/image/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/aead.h"
#include "crypto/hkdf.h"
#include "crypto/secret.h"
#include "runner/sandbox/copy.h"

#define PIECE_SIZE ((size_t)1 << 20) /* of a blob; each is sealed by itself */
#define NAME_SIZE  72                /* ".part-" or 64 hex digits */
#define INFO_SIZE  512               /* a project and a digest */

struct image_cache {
    int parent, folder;
    char name[32];
    int64_t bytes_max;
    struct secret *key;
};

/* ---- names and keys ---- */

struct entry {
    char name[NAME_SIZE];
    uint8_t key[XCHACHA_KEY_SIZE];
};

static void entry_done(struct entry *entry)
{
    secret_wipe(entry, sizeof *entry);
}
#define OWNED_ENTRY __attribute__((cleanup(entry_done))) struct entry

/* Neither the project nor the digest can be read from the name. */
static struct result find_entry(const struct image_cache *cache, const char *project, const struct image_part *part,
                                struct entry *entry, struct error *err)
{
    uint8_t derived[XCHACHA_KEY_SIZE + 32];
    char info[INFO_SIZE];

    (void)snprintf(info, sizeof info, "%.300s\n%.140s", project, part->digest);
    TRY(hkdf_sha256(secret_bytes(cache->key), (struct bytes){NULL, 0}, bytes_of_text(info), derived, sizeof derived, err));
    memcpy(entry->key, derived, sizeof entry->key);
    text_hex(derived + sizeof entry->key, 32, entry->name);
    secret_wipe(derived, sizeof derived);
    return SUCCESS;
}

/* ---- sealed files ---- */

struct coding {
    int from, to;
    const uint8_t *key;
    uint8_t *plain, *box; /* of one piece */
    struct hasher *hasher;
};

static void coding_done(struct coding *coding)
{
    file_close_owned(&coding->from);
    file_close_owned(&coding->to);
    free(coding->plain);
    free(coding->box);
    hasher_free(coding->hasher);
}
#define OWNED_CODING __attribute__((cleanup(coding_done))) struct coding
#define CODING       ((struct coding){.from = -1, .to = -1})

static struct result make_room_for_piece(struct coding *coding, struct error *err)
{
    coding->plain = memory_zeroed(1, PIECE_SIZE);
    coding->box = memory_zeroed(1, PIECE_SIZE + BOX_OVERHEAD);
    if (coding->plain == NULL || coding->box == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a blob of an image");
    return hasher_new(DIGEST_SHA256, &coding->hasher, err);
}

static size_t length_at(int64_t size, int64_t at)
{
    return size - at < (int64_t)PIECE_SIZE ? (size_t)(size - at) : PIECE_SIZE;
}

static struct result seal_all(const struct coding *coding, int64_t size, struct error *err)
{
    for (int64_t at = 0; at < size; at += (int64_t)PIECE_SIZE) {
        const struct bytes plain = {coding->plain, length_at(size, at)}, place = {(const uint8_t *)&at, sizeof at};
        TRY(file_read_at(coding->from, coding->plain, plain.length, (uint64_t)at, err));
        box_seal(coding->key, place, plain, coding->box);
        TRY(file_write_all(coding->to, coding->box, plain.length + BOX_OVERHEAD, err));
    }
    return SUCCESS;
}

static struct result open_all(const struct coding *coding, const struct image_part *part, struct error *err)
{
    struct digest wanted;
    uint64_t offset = 0;

    for (int64_t at = 0; at < part->size; at += (int64_t)PIECE_SIZE) {
        const struct bytes plain = {coding->plain, length_at(part->size, at)}, place = {(const uint8_t *)&at, sizeof at};
        const struct bytes box = {coding->box, plain.length + BOX_OVERHEAD};
        TRY(file_read_at(coding->from, coding->box, box.length, offset, err));
        TRY(box_open(coding->key, place, box, coding->plain, err));
        hasher_add(coding->hasher, plain);
        TRY(file_write_all(coding->to, coding->plain, plain.length, err));
        offset += box.length;
    }
    TRY(digest_parse(bytes_of_text(part->digest), &wanted, err));
    const struct digest digest = hasher_digest(coding->hasher);
    return digest_equal(&wanted, &digest) ? SUCCESS : failure(err, ERROR_CORRUPT, "a kept blob of an image is damaged");
}

/* ---- room ---- */

/* Finds the sum of all sizes, and the blob that was used least recently. */
static struct result look(const struct image_cache *cache, int64_t *bytes_out, char oldest_out[NAME_SIZE], struct error *err)
{
    OWNED_LISTING listing = file_list(cache->folder);
    struct timespec first = {0};
    const char *name = NULL;
    struct stat about;

    if (listing == NULL) return failure(err, ERROR_UNAVAILABLE, "the kept blobs of images can't be listed: %s", strerror(errno));
    *bytes_out = 0;
    oldest_out[0] = '\0';
    for (;;) {
        TRY(file_list_next(listing, &name, err));
        if (name == NULL) return SUCCESS;
        if (fstatat(cache->folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
        *bytes_out += about.st_size;
        const bool is_older = about.st_mtim.tv_sec < first.tv_sec ||
                              (about.st_mtim.tv_sec == first.tv_sec && about.st_mtim.tv_nsec < first.tv_nsec);
        if (oldest_out[0] != '\0' && !is_older) continue;
        first = about.st_mtim;
        (void)snprintf(oldest_out, NAME_SIZE, "%.70s", name);
    }
}

static struct result make_room(const struct image_cache *cache, int64_t size, struct error *err)
{
    char oldest[NAME_SIZE];
    int64_t bytes = 0;

    for (;;) {
        TRY(look(cache, &bytes, oldest, err));
        if (bytes + size <= cache->bytes_max) return SUCCESS;
        if (oldest[0] == '\0' || unlinkat(cache->folder, oldest, 0) != 0)
            return failure(err, ERROR_FULL, "no room for a blob of an image");
    }
}

/* ---- */

struct result image_cache_take(const struct image_cache *cache, const char *project, const struct image_part *part, int folder,
                               const char *name, struct error *err)
{
    OWNED_ENTRY entry = {.name = ""};
    OWNED_CODING coding = CODING;

    TRY(find_entry(cache, project, part, &entry, err));
    coding.key = entry.key;
    TRY(file_open_at(cache->folder, entry.name, O_RDONLY | O_NOFOLLOW, 0, &coding.from, err));
    TRY(make_room_for_piece(&coding, err));
    TRY(file_open_at(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, &coding.to, err));
    if (open_all(&coding, part, err).ok) {
        (void)futimens(coding.from, NULL); /* used now */
        return SUCCESS;
    }
    (void)unlinkat(folder, name, 0);
    (void)unlinkat(cache->folder, entry.name, 0);
    return failure(err, ERROR_NOT_FOUND, "a kept blob of an image can't be used");
}

struct result image_cache_keep(const struct image_cache *cache, const char *project, const struct image_part *part, int folder,
                               const char *name, struct error *err)
{
    const int64_t pieces = part->size / (int64_t)PIECE_SIZE + 1, sealed = part->size + pieces * BOX_OVERHEAD;
    OWNED_ENTRY entry = {.name = ""};
    OWNED_CODING coding = CODING;
    char new_name[NAME_SIZE];

    if (sealed > cache->bytes_max) return failure(err, ERROR_FULL, "a blob of an image is larger than all that is kept");
    TRY(find_entry(cache, project, part, &entry, err));
    coding.key = entry.key;
    TRY(make_room(cache, sealed, err));
    TRY(make_room_for_piece(&coding, err));
    TRY(file_open_at(folder, name, O_RDONLY | O_NOFOLLOW, 0, &coding.from, err));
    (void)snprintf(new_name, sizeof new_name, ".part-%ld", (long)getpid());
    (void)unlinkat(cache->folder, new_name, 0);
    TRY(file_open_at(cache->folder, new_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, &coding.to, err));
    struct result done = seal_all(&coding, part->size, err);
    if (done.ok && renameat(cache->folder, new_name, cache->folder, entry.name) != 0)
        done = failure(err, ERROR_UNAVAILABLE, "a blob of an image can't be kept: %s", strerror(errno));
    if (!done.ok) (void)unlinkat(cache->folder, new_name, 0);
    return done;
}

struct result image_cache_new(int parent, const char *name, int64_t bytes_max, struct image_cache **cache_out, struct error *err)
{
    OWNED(image_cache) *cache = memory_zeroed(1, sizeof *cache);

    if (cache == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for kept images");
    cache->folder = cache->parent = -1;
    cache->bytes_max = bytes_max;
    (void)snprintf(cache->name, sizeof cache->name, "%.31s", name);
    TRY(copy_remove(parent, name, err));
    if (mkdirat(parent, name, 0700) != 0)
        return failure(err, ERROR_UNAVAILABLE, "no folder for kept images: %s", strerror(errno));
    TRY(file_open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &cache->folder, err));
    TRY(file_open_at(parent, ".", O_RDONLY | O_DIRECTORY, 0, &cache->parent, err));
    TRY(secret_random(32, &cache->key, err));
    *cache_out = GIVE(cache);
    return SUCCESS;
}

void image_cache_remove(struct image_cache *cache)
{
    struct error ignored;

    if (cache != NULL) (void)copy_remove(cache->parent, cache->name, &ignored).ok;
}

void image_cache_free(struct image_cache *cache)
{
    if (cache == NULL) return;
    file_close_owned(&cache->folder);
    file_close_owned(&cache->parent);
    secret_free(cache->key);
    free(cache);
}
