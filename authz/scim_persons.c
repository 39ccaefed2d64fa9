#include "authz/scim_persons.h"

#include <stdlib.h>
#include <string.h>

#include "authz/rights_part_priv.h"
#include "authz/role.h"
#include "base/memory.h"
#include "base/text.h"

struct scim_persons {
    atomic_uint owners;
    struct scim_persons *self; /* lets a holder of a const pointer add an owner */
    size_t count;
    struct scim_person *rows; /* views into `texts` */
    char *texts;
    struct index_table by_subject, by_key, by_external;
};

/* Different for names of different issuers with high probability; a find compares both. */
static uint64_t hash_of(const char *issuer, const char *name)
{
    return rights_hash(bytes_of_text(issuer)) ^ (rights_hash(bytes_of_text(name)) << 1);
}

static const char *copy(char **at, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copied = *at;

    memcpy(copied, text, size);
    *at += size;
    return copied;
}

static struct result copy_rows(struct scim_persons *persons, const struct scim_person *rows, size_t count, struct error *err)
{
    size_t size = 1;

    for (size_t i = 0; i < count; i++) size += strlen(rows[i].issuer) + strlen(rows[i].external_id) + strlen(rows[i].subject) + 3;
    persons->rows = memory_zeroed(count + 1, sizeof *persons->rows);
    persons->texts = memory_zeroed(size, 1);
    if (persons->rows == NULL || persons->texts == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for persons");
    char *at = persons->texts;
    for (size_t i = 0; i < count; i++) {
        persons->rows[i] = rows[i];
        persons->rows[i].issuer = copy(&at, rows[i].issuer);
        persons->rows[i].external_id = copy(&at, rows[i].external_id);
        persons->rows[i].subject = copy(&at, rows[i].subject);
    }
    persons->count = count;
    return SUCCESS;
}

static void key_of(const struct scim_person *row, char key_out[PRINCIPAL_KEY_SIZE])
{
    struct principal principal = {.kind = PRINCIPAL_EXTERNAL};

    (void)text_copy(principal.issuer, sizeof principal.issuer, row->issuer);
    (void)text_copy(principal.subject, sizeof principal.subject, row->subject);
    principal_key(&principal, key_out);
}

static void index_subject(struct scim_persons *persons, size_t number)
{
    const struct scim_person *row = &persons->rows[number];
    char key[PRINCIPAL_KEY_SIZE];

    if (row->subject[0] == '\0') return;
    key_of(row, key);
    index_add(&persons->by_subject, hash_of(row->issuer, row->subject), number);
    index_add(&persons->by_key, rights_hash(bytes_of_text(key)), number);
}

static struct result make_indexes(struct scim_persons *persons, struct error *err)
{
    TRY(index_new(persons->count, &persons->by_subject, err));
    TRY(index_new(persons->count, &persons->by_key, err));
    TRY(index_new(persons->count, &persons->by_external, err));
    for (size_t i = 0; i < persons->count; i++) {
        const struct scim_person *row = &persons->rows[i];
        index_subject(persons, i);
        index_add(&persons->by_external, hash_of(row->issuer, row->external_id), i);
    }
    return SUCCESS;
}

NO_LEAK_BEGIN /* its last holder frees it */
    struct result
    scim_persons_new(const struct scim_person *rows, size_t count, struct scim_persons **persons_out, struct error *err)
{
    OWNED(scim_persons) *persons = memory_zeroed(1, sizeof *persons);

    if (persons == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for persons");
    atomic_init(&persons->owners, 1);
    persons->self = persons;
    TRY(copy_rows(persons, rows, count, err));
    TRY(make_indexes(persons, err));
    *persons_out = GIVE(persons);
    return SUCCESS;
}
NO_LEAK_END

struct scim_persons *scim_persons_keep(const struct scim_persons *persons)
{
    if (persons == NULL) return NULL;
    atomic_fetch_add(&persons->self->owners, 1);
    return persons->self;
}

void scim_persons_free(struct scim_persons *persons)
{
    if (persons == NULL || atomic_fetch_sub(&persons->owners, 1) != 1) return;
    free(persons->rows);
    free(persons->texts);
    free(persons->by_subject.slots);
    free(persons->by_key.slots);
    free(persons->by_external.slots);
    free(persons);
}

const struct scim_person *scim_persons_of_subject(const struct scim_persons *persons, const char *issuer, const char *subject)
{
    uint64_t at = persons == NULL || persons->count == 0 ? 0 : hash_of(issuer, subject);

    if (persons == NULL || persons->count == 0) return NULL;
    for (uint64_t entry; (entry = index_next(&persons->by_subject, &at)) != 0;) {
        const struct scim_person *row = &persons->rows[entry - 1];
        if (strcmp(row->issuer, issuer) == 0 && strcmp(row->subject, subject) == 0) return row;
    }
    return NULL;
}

const struct scim_person *scim_persons_of_key(const struct scim_persons *persons, const char *key)
{
    uint64_t at = rights_hash(bytes_of_text(key));

    if (persons == NULL || persons->count == 0) return NULL;
    for (uint64_t entry; (entry = index_next(&persons->by_key, &at)) != 0;) {
        char own[PRINCIPAL_KEY_SIZE];
        key_of(&persons->rows[entry - 1], own);
        if (strcmp(own, key) == 0) return &persons->rows[entry - 1];
    }
    return NULL;
}

const struct scim_person *scim_persons_of_external(const struct scim_persons *persons, const char *issuer,
                                                   const char *external_id)
{
    uint64_t at = persons == NULL || persons->count == 0 ? 0 : hash_of(issuer, external_id);

    if (persons == NULL || persons->count == 0) return NULL;
    for (uint64_t entry; (entry = index_next(&persons->by_external, &at)) != 0;) {
        const struct scim_person *row = &persons->rows[entry - 1];
        if (strcmp(row->issuer, issuer) == 0 && strcmp(row->external_id, external_id) == 0) return row;
    }
    return NULL;
}
