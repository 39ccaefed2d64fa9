/* A policy set or a legal hold with its proof, from anybody: what is verified, is signed as it must be and has exactly that event. */
#include <assert.h>
#include <string.h>

#include "policy/set_export.h"
#include "policy/set_text.h"

/* The keys of the registry that the seeds are of; nobody has their private halves. */
#define LOG_KEY "d27f17f5.sijil.local/audit+cf579fce+AfshWonKw7GXB3f0P5zNSp/dzdSbeorDDPQrS8ZVTqCy"
#define ROOT_KEY                                                         \
    "-----BEGIN PUBLIC KEY-----\n"                                       \
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE0Rk2U5MnQ6ndCqiL0CUa8hzjT7Vu\n" \
    "5SSexA7XzvnwTLqOP1TsZIfKKARxyFSqaGb872JDXp/VdB1wQJj9Crld3w==\n"     \
    "-----END PUBLIC KEY-----\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_hold(struct bytes data, const struct proof_trust *trust, const struct ecdsa_key *root)
{
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX);
    struct hold_export_report report = {.document = NULL};
    struct error err = {0};

    if (!hold_export_check(data, trust, root, &report, &err).ok) {
        assert(report.document == NULL);
        return;
    }
    assert(report.document->kind == DOCUMENT_LEGAL_HOLD && report.document->signature_count > 0);
    assert(hold_export_report_text(&report, &text, &err).ok);
    hold_export_report_done(&report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ecdsa_key *root;
    const struct proof_trust trust = {.vkey = bytes_of_text(LOG_KEY)};
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX);
    struct set_export_report report = {.set = NULL};
    struct error err = {0};

    if (root == NULL) assert(ecdsa_key_from_pem(bytes_of_text(ROOT_KEY), &root, &err).ok);
    check_hold((struct bytes){data, size}, &trust, root);
    if (!set_export_check((struct bytes){data, size}, &trust, root, &report, &err).ok) {
        assert(report.set == NULL);
        return 0;
    }
    assert(strstr(report.proof.event.targets[0].resource, policy_set_digest(report.set)) != NULL);
    assert(set_export_report_text(&report, &text, &err).ok);
    set_export_report_done(&report);
    return 0;
}
