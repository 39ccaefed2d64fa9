/* Whose principals a run names, for those that approve it: documents and envelopes have only hashes of subjects. */
#include <string.h>

#include "authz/binding.h"
#include "authz/robot.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "gateway/api/run_priv.h"

#define PEOPLE_MAX 16 /* a requester, and at most 8 approvers */

PART(run_holder, "the subject of an issuer", HAS_TEXT("issuer", REQUIRED, FORM_FREE, 1, 255, "its URL"),
     HAS_TEXT("subject", REQUIRED, FORM_FREE, 1, 255, "as tokens name it"))
SCHEMA(run_person, "a principal of a run, and whose it is",
       HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "as envelopes name it: a hash of the holder, or the id of a robot"),
       HAS_OBJECT("holder", OPTIONAL, schema_run_holder, "of a subject of an issuer: compute the hash again"),
       HAS_TEXT("robot", OPTIONAL, FORM_FREE, 1, 255, "of a robot that asked: its name, as the registry says"))

struct people {
    uint8_t room[PEOPLE_MAX][SHA256_SIZE];
    struct bytes digests[PEOPLE_MAX];
    size_t count;
    json_t *list;
};

static void note(struct people *people, const char *principal)
{
    uint8_t *digest = people->room[people->count];

    if (people->count == PEOPLE_MAX - 1 || principal == NULL || strncmp(principal, "ext:", 4) != 0) return;
    if (!text_from_hex(bytes_of_text(principal + 4), digest, SHA256_SIZE)) return;
    people->digests[people->count++] = (struct bytes){digest, SHA256_SIZE};
}

static struct result take(void *context, struct bytes digest, const char *issuer, const char *subject, struct error *err)
{
    char principal[PRINCIPAL_KEY_SIZE] = "ext:";
    struct people *people = context;

    text_hex(digest.data, digest.length, principal + strlen("ext:"));
    json_t *person = json_pack("{s:s, s:{s:s, s:s}}", "principal", principal, "holder", "issuer", issuer, "subject", subject);
    if (person != NULL && json_array_append_new(people->list, person) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the people of a run");
}

/* Nothing that was signed has the name of a robot. */
static struct result add_robot(const struct request *request, struct pg *pg, const char *principal, json_t *list,
                               struct error *err)
{
    const size_t length = strlen("robot:");
    char name[ROBOT_NAME_SIZE];
    struct uuid id;

    if (principal == NULL || strncmp(principal, "robot:", length) != 0 || !uuid_parse(bytes_of_text(principal + length), &id))
        return SUCCESS;
    TRY(robot_shown(request->permit, pg, ACTION_RUN_READ, &id, name, err));
    if (name[0] == '\0' || json_array_append_new(list, json_pack("{s:s, s:s}", "principal", principal, "robot", name)) == 0)
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the people of a run");
}

/* Approvers must know whose request they sign. Other readers may not know who has roles here. */
static struct result may_know(const struct request *request, bool *may_out, struct error *err)
{
    const struct action_pair pair = {ACTION_RUN_APPROVE, *permit_resource(request->permit, ACTION_RUN_READ)};

    return api_may(request, &pair, may_out, err);
}

struct result run_add_people(const struct request *request, struct pg *pg, const json_t *envelopes, json_t *value,
                             struct error *err)
{
    OWNED_JSON list = json_array();
    struct people people = {.list = list};
    const json_t *envelope;
    bool may = false;
    size_t i;

    TRY(may_know(request, &may, err));
    if (!may) return SUCCESS;
    note(&people, json_text_of(value, "requester"));
    json_array_foreach (envelopes, i, envelope) {
        const char *kind = json_text_of(envelope, "kind");
        if (kind != NULL && strcmp(kind, "approval") == 0) note(&people, json_text_of(envelope, "principal"));
    }
    const struct subject_query query = {people.digests, people.count, take, &people, ACTION_RUN_READ};
    if (people.count > 0) TRY(binding_subjects(request->permit, pg, &query, err));
    TRY(add_robot(request, pg, json_text_of(value, "requester"), list, err));
    if (json_array_size(list) == 0 || json_object_set(value, "people", list) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the people of a run");
}
