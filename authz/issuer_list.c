/* The issuers of a snapshot, with indexes: each token of ours that was made from an issuer's token looks its issuer up. */
#include <string.h>

#include "authz/snapshot_priv.h"
#include "base/memory.h"

/* Rows come in the same order each time, so the search begins behind the last find, and mostly ends there. */
static struct issuer *find_equal(const struct issuer_list *before, const struct issuer_record *record, size_t *at)
{
    const size_t count = before == NULL ? 0 : before->count;

    for (size_t step = 0; step < count; step++) {
        const size_t number = (*at + step) % count;
        if (strcmp(issuer_record_of(before->issuers[number])->url, record->url) != 0) continue;
        *at = number + 1;
        return issuer_equals(before->issuers[number], record) ? issuer_keep(before->issuers[number]) : NULL;
    }
    return NULL;
}

static void index_issuer(struct issuer_list *list, size_t number)
{
    const struct issuer *issuer = list->issuers[number];

    index_add(&list->by_url, rights_hash(bytes_of_text(issuer_record_of(issuer)->url)), number);
    index_add(&list->by_digest, rights_hash(bytes_of_text(issuer_digest(issuer))), number);
}

/* An issuer with unusable keys must not affect the others' tokens. */
static struct result add_issuers(const struct authz_parts *parts, const struct issuer_list *before, struct issuer_list *list,
                                 struct error *err)
{
    size_t at = 0;

    for (size_t i = 0; i < parts->issuer_count; i++) {
        struct error cause = {0};
        struct issuer **place = &list->issuers[list->count];
        *place = find_equal(before, &parts->issuers[i], &at);
        if (*place != NULL || issuer_new(&parts->issuers[i], place, &cause).ok) index_issuer(list, list->count++);
        else if (cause.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
        else list->bad_count++;
    }
    return SUCCESS;
}

NO_LEAK_BEGIN /* its last holder frees it */
    struct result
    issuer_list_new(const struct authz_parts *parts, const struct issuer_list *before, struct issuer_list **list_out,
                    struct error *err)
{
    OWNED(issuer_list) *list = memory_zeroed(1, sizeof *list);

    if (list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    atomic_init(&list->owners, 1);
    list->issuers = memory_zeroed(parts->issuer_count + 1, sizeof(struct issuer *));
    if (list->issuers == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    TRY(index_new(parts->issuer_count, &list->by_url, err));
    TRY(index_new(parts->issuer_count, &list->by_digest, err));
    TRY(add_issuers(parts, before, list, err));
    *list_out = GIVE(list);
    return SUCCESS;
}
NO_LEAK_END

const struct issuer *issuer_list_find(const struct issuer_list *list, const char *url)
{
    uint64_t at = rights_hash(bytes_of_text(url));

    for (uint64_t entry; (entry = index_next(&list->by_url, &at)) != 0;)
        if (strcmp(issuer_record_of(list->issuers[entry - 1])->url, url) == 0) return list->issuers[entry - 1];
    return NULL;
}

const struct issuer *issuer_list_find_digest(const struct issuer_list *list, struct bytes digest)
{
    uint64_t at = rights_hash(digest);

    for (uint64_t entry; (entry = index_next(&list->by_digest, &at)) != 0;)
        if (bytes_equal(digest, bytes_of_text(issuer_digest(list->issuers[entry - 1])))) return list->issuers[entry - 1];
    return NULL;
}

void issuer_list_free(struct issuer_list *list)
{
    if (list == NULL || atomic_fetch_sub(&list->owners, 1) != 1) return;
    for (size_t i = 0; i < list->count; i++) issuer_free(list->issuers[i]);
    free(list->issuers);
    free(list->by_url.slots);
    free(list->by_digest.slots);
    free(list);
}
