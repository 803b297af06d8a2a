package gateway

import (
	"context"
	"time"

	"sgclaw/internal/access"
	"sgclaw/internal/openclaw"
)

// Methods is the table of all methods.
func Methods() []Method {
	const (
		viewer, user, approver, operator = access.RoleViewer, access.RoleUser, access.RoleApprover, access.RoleOperator

		short = time.Duration(0)  // as long as Config says
		long  = time.Duration(-1) // as long as the connection lasts
	)
	return []Method{
		// What OpenClaw's clients ask.
		on("health", viewer, short, health),
		on("status", viewer, short, status),
		on("system-presence", viewer, short, systemPresence),
		scoped(openclaw.ScopeRead, on("logs.tail", operator, short, logsTail)),
		on("usage.status", viewer, short, usageStatus),
		on("usage.cost", viewer, short, usageCost),

		on("chat.send", user, short, chatSend),
		on("chat.history", viewer, short, chatHistory),
		on("chat.abort", user, short, chatAbort),
		on("chat.inject", operator, short, chatInject),
		on("agent", user, long, runAgent),
		on("agent.wait", viewer, long, agentWait),

		on("sessions.list", viewer, short, sessionsList),
		on("sessions.get", viewer, short, sessionsGet),
		on("sessions.describe", viewer, short, sessionsDescribe),
		on("sessions.resolve", viewer, short, sessionsResolve),
		on("sessions.preview", viewer, short, sessionsPreview),
		on("sessions.patch", user, short, sessionsPatch),
		on("sessions.reset", user, short, sessionsReset),
		on("sessions.delete", user, short, sessionsDelete),
		on("sessions.compact", user, short, sessionsCompact),
		on("sessions.subscribe", viewer, short, sessionsSubscribe),
		on("sessions.unsubscribe", viewer, short, sessionsUnsubscribe),
		on("sessions.messages.subscribe", viewer, short, messagesSubscribe),
		on("sessions.messages.unsubscribe", viewer, short, messagesUnsubscribe),

		on("agents.list", viewer, short, agentsList),
		on("models.list", viewer, short, modelsList),
		on("tools.catalog", viewer, short, toolsCatalog),
		on("tools.effective", viewer, short, toolsEffective),
		on("skills.status", viewer, short, skillsStatus),
		on("commands.list", viewer, short, commandsList),

		on("exec.approval.list", viewer, short, execApprovalList),
		on("exec.approval.get", viewer, short, execApprovalGet),
		on("exec.approval.resolve", approver, short, execApprovalResolve),
		on("approval.get", viewer, short, approvalGet),
		on("approval.resolve", approver, short, approvalResolve),
		on("approval.history", viewer, short, approvalHistory),
		on("openclaw.approval.list", viewer, short, noApprovals),
		on("plugin.approval.list", viewer, short, noApprovals),
		on("question.list", viewer, short, questionList),
		on("taskSuggestions.list", viewer, short, taskSuggestionsList),

		on("cron.list", viewer, short, cronList),
		on("cron.status", viewer, short, cronStatus),
		on("cron.get", viewer, short, cronGet),
		on("cron.add", operator, short, cronAdd),
		on("cron.update", operator, short, cronUpdate),
		on("cron.remove", operator, short, cronRemove),
		on("cron.run", operator, short, cronRun),
		on("cron.runs", viewer, short, cronRuns),

		// Ours.
		on("sgclaw.watch", viewer, short, watch),
		on("sgclaw.unwatch", viewer, short, unwatch),
		on("sgclaw.send", user, short, send),
		on("sgclaw.runs.list", viewer, short, runsList),
		on("sgclaw.runs.get", viewer, short, runsGet),
		on("sgclaw.runs.image", viewer, short, runsImage),
		on("sgclaw.runs.steer", user, short, runsSteer),
		on("sgclaw.runs.abort", user, short, runsAbort),
		on("sgclaw.runs.rewind", operator, short, runsRewind),
		on("sgclaw.runs.move", user, short, runsMove),
		on("sgclaw.confirmations.list", viewer, short, confirmationsList),
		on("sgclaw.confirmations.answer", approver, short, confirmationsAnswer),
		on("sgclaw.confirmations.picture", viewer, short, confirmationsPicture),
		on("sgclaw.queue", viewer, short, queue),
		on("sgclaw.browsers", viewer, short, browsers),
		on("sgclaw.health", viewer, short, healthOfParts),
		on("sgclaw.usage", viewer, short, usage),
		on("sgclaw.whoami", viewer, short, whoami),
	}
}

// scoped gives an entry another scope than that of its role.
func scoped(scope string, m Method) Method {
	m.Scope = scope
	return m
}

// on makes an entry of the table, whose handler gets its parameters decoded.
func on[P any](name string, role access.Role, timeout time.Duration, handle func(context.Context, *Gateway, *Call, P) (any, error)) Method {
	return Method{Name: name, Role: role, Timeout: timeout, Handle: func(ctx context.Context, g *Gateway, c *Call) (any, error) {
		p, err := openclaw.Decode[P](name, c.Params)
		if err != nil {
			return nil, err
		}
		return handle(ctx, g, c, p)
	}}
}
