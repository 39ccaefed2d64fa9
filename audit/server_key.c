#include "audit/server_key.h"

#include "audit/subject_priv.h"

struct result server_key_open(struct keyd_client *keyd, struct pg *pg, const struct server_key *wanted, struct secret **key_out,
                              struct error *err)
{
    return subject_key_find(keyd, pg, (const char *const[2]){wanted->purpose, wanted->name}, wanted->makes, key_out, err);
}
