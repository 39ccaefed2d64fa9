#include "training/papers.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "training/run_priv.h"

/* Columns of run_rows_leases(); the first three are those of run_rows_node_results(), too. */
enum { NODE_ATTEMPT, NODE_NUMBER, NODE_ENVELOPE, LEASE_CERTIFICATE };

static void free_papers(struct run_paper *each, size_t count)
{
    for (size_t i = 0; each != NULL && i < count; i++) run_envelope_free(each[i].read);
    free(each);
}

static void free_nodes(struct run_papers *papers)
{
    free_papers(papers->leases_of, papers->peer_count);
    free_papers(papers->certificates_of, papers->peer_count);
    free_papers(papers->results_of, papers->peer_count);
    free(papers->peers);
    pg_rows_free(papers->node_rows);
    papers->leases_of = papers->certificates_of = papers->results_of = NULL;
    papers->peers = NULL;
    papers->node_rows = NULL;
    papers->peer_count = 0;
}

void run_papers_free(struct run_papers *papers)
{
    if (papers == NULL) return;
    for (size_t i = 0; i < RUN_TYPES; i++) run_envelope_free(papers->each[i].read);
    for (size_t i = 0; i < papers->approval_count; i++) run_envelope_free(papers->approvals[i].read);
    pg_rows_free(papers->rows);
    pg_rows_free(papers->leases);
    free_nodes(papers);
    free(papers);
}

static bool find_type(const char *kind, enum run_type *type_out)
{
    for (enum run_type type = 0; type < RUN_TYPES; type++)
        if (strcmp(run_type_name(type), kind) == 0) {
            *type_out = type;
            return true;
        }
    return false;
}

/* A refusal comes after its lease, as a result does. */
static bool is_wanted(const struct run_papers_query *query, enum run_type type)
{
    return type == RUN_REFUSAL ? query->last >= RUN_RESULT : type <= query->last;
}

static struct result take(struct run_papers *papers, enum run_type type, const char *text, struct error *err)
{
    if (type == RUN_APPROVAL && papers->approval_count == RUN_APPROVALS_MAX)
        return failure(err, ERROR_CORRUPT, "the run has more than %d approvals", RUN_APPROVALS_MAX);
    struct run_paper *paper = type == RUN_APPROVAL ? &papers->approvals[papers->approval_count] : &papers->each[type];
    if (paper->read != NULL) return failure(err, ERROR_CORRUPT, "the run has two envelopes: %s", run_type_name(type));
    TRY(run_envelope_read(bytes_of_text(text), type, &paper->read, err));
    paper->text = text;
    papers->approval_count += type == RUN_APPROVAL;
    return SUCCESS;
}

static int compare_papers(const void *a, const void *b)
{
    const struct run_paper *one = a, *other = b;

    return strcmp(one->read->digest, other->read->digest);
}

static struct result read_envelopes(const struct permit *permit, struct pg *pg, const struct run_papers_query *query,
                                    struct run_papers *papers, struct error *err)
{
    enum run_type type = RUN_REQUEST;

    TRY(run_envelopes(permit, pg, query->action, &query->run, &papers->rows, err));
    for (size_t i = 0; i < pg_rows_count(papers->rows); i++)
        if (find_type(pg_text(papers->rows, i, RUN_ENVELOPE_KIND), &type) && is_wanted(query, type))
            TRY(take(papers, type, pg_text(papers->rows, i, RUN_ENVELOPE_TEXT), err));
    if (papers->each[RUN_REQUEST].read == NULL) return failure(err, ERROR_NOT_FOUND, "there is no such run");
    qsort(papers->approvals, papers->approval_count, sizeof papers->approvals[0], compare_papers);
    return SUCCESS;
}

static bool is_the_lease(const struct run_papers *papers, const struct run_papers_query *query, const struct run_envelope *lease)
{
    const struct run_envelope *result = papers->each[RUN_RESULT].read, *refusal = papers->each[RUN_REFUSAL].read;

    if (query->attempt != 0) return run_integer(lease, "attempt") == query->attempt && run_integer(lease, "node") == query->node;
    if (refusal != NULL) return strcmp(lease->digest, run_text(refusal, "lease")) == 0;
    if (result == NULL) return run_integer(lease, "node") == 0;
    return strcmp(lease->digest, run_text(result, "predicate.buildDefinition.externalParameters.lease")) == 0;
}

/* A node has one from its start on. */
static struct result take_certificate(struct run_papers *papers, size_t row, struct error *err)
{
    const char *text = pg_text(papers->leases, row, LEASE_CERTIFICATE);
    struct error why = {0};

    if (text[0] == '\0' || take(papers, RUN_CERTIFICATE, text, &why).ok) return SUCCESS;
    return failure(err, why.kind == ERROR_INVALID ? ERROR_CORRUPT : why.kind, "the kept certificate of the attempt: %.200s",
                   why.message);
}

static struct result read_lease(struct pg *pg, const struct run_papers_query *query, struct run_papers *papers, struct error *err)
{
    if (query->last < RUN_LEASE) return SUCCESS;
    TRY(run_rows_leases(pg, &query->run, &papers->leases, err));
    for (size_t i = 0; i < pg_rows_count(papers->leases) && papers->each[RUN_LEASE].read == NULL; i++) {
        const char *text = pg_text(papers->leases, i, NODE_ENVELOPE);
        OWNED(run_envelope) *lease = NULL;
        TRY(run_envelope_read(bytes_of_text(text), RUN_LEASE, &lease, err));
        if (!is_the_lease(papers, query, lease)) continue;
        TRY(take(papers, RUN_LEASE, text, err));
        if (query->last >= RUN_CERTIFICATE) TRY(take_certificate(papers, i, err));
    }
    return SUCCESS;
}

/* ---- the other nodes ---- */

static struct result make_room(struct run_papers *papers, size_t count, struct error *err)
{
    papers->leases_of = memory_zeroed(count, sizeof *papers->leases_of);
    papers->certificates_of = memory_zeroed(count, sizeof *papers->certificates_of);
    papers->results_of = memory_zeroed(count, sizeof *papers->results_of);
    papers->peers = memory_zeroed(count, sizeof *papers->peers);
    if (papers->leases_of == NULL || papers->certificates_of == NULL || papers->results_of == NULL || papers->peers == NULL)
        return failure(err, ERROR_NO_MEMORY, "no memory for the nodes of a run");
    papers->peer_count = count;
    return SUCCESS;
}

/* The envelopes of one type, of all other nodes. */
struct node_papers {
    const struct pg_rows *rows;
    size_t column;
    enum run_type type;
    struct run_paper *each;
    int64_t attempt; /* rows of another one are passed over */
};

static struct result take_nodes(const struct node_papers *of, const struct run_papers *papers, struct error *err)
{
    for (size_t i = 0; i < pg_rows_count(of->rows); i++) {
        const int64_t node = pg_int8(of->rows, i, NODE_NUMBER);
        const char *text = pg_text(of->rows, i, of->column);
        if (pg_int8(of->rows, i, NODE_ATTEMPT) != of->attempt || node < 1 || node > (int64_t)papers->peer_count ||
            text[0] == '\0')
            continue;
        struct run_paper *paper = &of->each[node - 1];
        if (paper->read != NULL)
            return failure(err, ERROR_CORRUPT, "the run has two envelopes of one node: %s", run_type_name(of->type));
        paper->text = text;
        TRY(run_envelope_read(bytes_of_text(text), of->type, &paper->read, err));
    }
    return SUCCESS;
}

static bool has_all_nodes(struct run_papers *papers)
{
    for (size_t i = 0; i < papers->peer_count; i++) {
        papers->peers[i] =
            (struct run_peer){papers->leases_of[i].read, papers->certificates_of[i].read, papers->results_of[i].read};
        if (papers->peers[i].lease == NULL || papers->peers[i].certificate == NULL || papers->peers[i].result == NULL)
            return false;
    }
    return true;
}

/* With the result of node 0, and only if those of all others are there. */
static struct result read_nodes(struct pg *pg, const struct run_papers_query *query, struct run_papers *papers, struct error *err)
{
    const struct run_envelope *order = papers->each[RUN_ORDER].read, *lease = papers->each[RUN_LEASE].read;

    if (papers->each[RUN_RESULT].read == NULL || order == NULL || lease == NULL || run_integer(lease, "node") != 0)
        return SUCCESS;
    const int64_t nodes = run_integer(order, "spec.nodes"), attempt = run_integer(lease, "attempt");
    if (nodes == 1) return SUCCESS;
    TRY(make_room(papers, (size_t)(nodes - 1), err));
    TRY(run_rows_node_results(pg, &query->run, attempt, &papers->node_rows, err));
    const struct node_papers each[] = {{papers->leases, NODE_ENVELOPE, RUN_LEASE, papers->leases_of, attempt},
                                       {papers->leases, LEASE_CERTIFICATE, RUN_CERTIFICATE, papers->certificates_of, attempt},
                                       {papers->node_rows, NODE_ENVELOPE, RUN_RESULT, papers->results_of, attempt}};
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) TRY(take_nodes(&each[i], papers, err));
    if (!has_all_nodes(papers)) free_nodes(papers);
    return SUCCESS;
}

static void fill_chain(struct run_papers *papers)
{
    papers->chain = (struct run_chain){.request = papers->each[RUN_REQUEST].read,
                                       .approval_count = papers->approval_count,
                                       .order = papers->each[RUN_ORDER].read,
                                       .lease = papers->each[RUN_LEASE].read,
                                       .certificate = papers->each[RUN_CERTIFICATE].read,
                                       .result = papers->each[RUN_RESULT].read,
                                       .admission = papers->each[RUN_ADMISSION].read,
                                       .refusal = papers->each[RUN_REFUSAL].read,
                                       .peers = papers->peers,
                                       .peer_count = papers->peer_count};
    for (size_t i = 0; i < papers->approval_count; i++) papers->chain.approvals[i] = papers->approvals[i].read;
}

struct result run_papers_read(const struct permit *permit, struct pg *pg, const struct run_papers_query *query,
                              struct run_papers **papers_out, struct error *err)
{
    OWNED(run_papers) *papers = memory_zeroed(1, sizeof *papers);

    if (papers == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the envelopes of a run");
    TRY(read_envelopes(permit, pg, query, papers, err));
    TRY(read_lease(pg, query, papers, err));
    TRY(read_nodes(pg, query, papers, err));
    fill_chain(papers);
    *papers_out = GIVE(papers);
    return SUCCESS;
}

bool run_papers_have(const struct run_papers *papers, const struct run_envelope *envelope)
{
    uint8_t digest[32];

    run_digest_bytes(envelope, digest);
    for (size_t i = 0; i < pg_rows_count(papers->rows); i++)
        if (bytes_equal(pg_bytes(papers->rows, i, RUN_ENVELOPE_DIGEST), (struct bytes){digest, sizeof digest})) return true;
    return false;
}
