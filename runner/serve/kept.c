#include "runner/serve/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

#define FOLDER    "leases"
#define NONCE_HEX (2 * LEASE_NONCE_SIZE)
#define NAME_SIZE (NONCE_HEX + 16) /* a nonce and the longest ending */

static const char *const endings[] = {[KEPT_BUNDLE] = ".bundle", [KEPT_RESULT] = ".result"};

static const char *name_of(const struct taken_lease *lease, enum kept_part part, char name[NAME_SIZE])
{
    text_hex(lease->nonce, LEASE_NONCE_SIZE, name);
    (void)snprintf(name + NONCE_HEX, NAME_SIZE - NONCE_HEX, "%s", endings[part]);
    return name;
}

struct result kept_open(int state, int *folder_out, struct error *err)
{
    if (mkdirat(state, FOLDER, 0700) != 0 && errno != EEXIST)
        return failure(err, ERROR_UNAVAILABLE, "the folder " FOLDER " can't be made: %s", strerror(errno));
    return file_open_at(state, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, folder_out, err);
}

struct result kept_write(int folder, const struct taken_lease *lease, enum kept_part part, struct bytes content,
                         struct error *err)
{
    char name[NAME_SIZE];

    return file_replace_at(folder, name_of(lease, part, name), content, 0600, err);
}

struct result kept_read(int folder, const struct taken_lease *lease, enum kept_part part, struct buffer *content,
                        struct error *err)
{
    OWNED_FD file = -1;
    char name[NAME_SIZE];
    uint8_t *place = NULL;
    uint64_t size = 0;

    TRY(file_open_at(folder, name_of(lease, part, name), O_RDONLY | O_NOFOLLOW, 0, &file, err));
    TRY(file_size(file, &size, err));
    if (size > content->maximum) return failure(err, ERROR_LIMIT, "%s is too large", name);
    TRY(buffer_reserve(content, (size_t)size, &place, err));
    TRY(file_read_at(file, place, (size_t)size, 0, err));
    content->length += (size_t)size;
    return SUCCESS;
}

bool kept_has_result(int folder, const struct taken_lease *lease)
{
    char name[NAME_SIZE];

    return faccessat(folder, name_of(lease, KEPT_RESULT, name), R_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void kept_remove(int folder, const struct taken_lease *lease)
{
    char name[NAME_SIZE];

    for (enum kept_part part = KEPT_BUNDLE; part <= KEPT_RESULT; part++) file_remove_at(folder, name_of(lease, part, name));
}

/* A name with a dot is a file that a worker writes just now; its end is not looked at. */
static bool is_needed(const char *name, const struct lease_journal *journal)
{
    const bool is_unfinished = name[0] == '.';
    uint8_t nonce[LEASE_NONCE_SIZE];

    name += is_unfinished ? 1 : 0;
    if (strlen(name) <= NONCE_HEX || !text_from_hex((struct bytes){(const uint8_t *)name, NONCE_HEX}, nonce, sizeof nonce))
        return false;
    const struct taken_lease *lease = lease_journal_find(journal, nonce);
    return lease != NULL && !lease->has_ended &&
           (is_unfinished || strcmp(name + NONCE_HEX, endings[KEPT_BUNDLE]) == 0 ||
            strcmp(name + NONCE_HEX, endings[KEPT_RESULT]) == 0);
}

struct result kept_sweep(int folder, const struct lease_journal *journal, struct error *err)
{
    OWNED_LISTING listing = file_list(folder);
    const char *name = NULL;

    if (listing == NULL) return failure(err, ERROR_UNAVAILABLE, "the folder " FOLDER " can't be listed: %s", strerror(errno));
    for (;;) {
        TRY(file_list_next(listing, &name, err));
        if (name == NULL) return SUCCESS;
        if (!is_needed(name, journal)) (void)unlinkat(folder, name, 0);
    }
}
