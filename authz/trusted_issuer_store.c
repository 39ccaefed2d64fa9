#include "authz/trusted_issuer.h"

#include "authz/epoch_priv.h"

static const struct pg_statement statements[] = {
    {"trusted_issuer_put",
     "INSERT INTO trusted_issuer (issuer_id, url, audience, algorithms, lifetime_max_s, jwks)"
     " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (url) DO UPDATE SET audience = $3, algorithms = $4,"
     " lifetime_max_s = $5, jwks = $6",
     "uuid text text text[] int8 text", ""},
    {"trusted_issuer_remove", "DELETE FROM trusted_issuer WHERE url = $1", "text", ""},
    RAISE_EPOCH("trusted_issuer_raise_epoch"),
};
const struct pg_table trusted_issuer_table = PG_TABLE(statements);

static struct result try_keys(const struct issuer_record *record, struct error *err)
{
    OWNED(issuer) *issuer = NULL;

    return issuer_new(record, &issuer, err);
}

struct result trusted_issuer_put(struct pg *pg, const struct issuer_record *record, struct error *err)
{
    struct bytes algorithms[JOSE_ALGORITHM_COUNT];
    const struct uuid id = uuid_random();
    struct pg_arguments arguments = {0};
    size_t count = 0;

    TRY(try_keys(record, err));
    for (enum jose_algorithm i = 0; i < JOSE_ALGORITHM_COUNT; i++)
        if ((record->algorithms & 1U << i) != 0) algorithms[count++] = bytes_of_text(jose_algorithm_name(i));
    pg_add_uuid(&arguments, &id);
    pg_add_text(&arguments, record->url);
    pg_add_text(&arguments, record->audience);
    pg_add_text_array(&arguments, algorithms, count);
    pg_add_int8(&arguments, record->lifetime_max_s);
    pg_add_text(&arguments, record->jwks);
    TRY(pg_run(pg, "trusted_issuer_put", &arguments, NULL, err));
    return pg_run(pg, "trusted_issuer_raise_epoch", NULL, NULL, err);
}

struct result trusted_issuer_remove(struct pg *pg, const char *url, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, url);
    TRY(pg_run(pg, "trusted_issuer_remove", &arguments, &rows, err));
    if (pg_rows_affected(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such issuer");
    return pg_run(pg, "trusted_issuer_raise_epoch", NULL, NULL, err);
}
