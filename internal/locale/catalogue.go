package locale

// Keys of texts that the agent writes.
const (
	Refused         Key = "observation.refused" // seed 001 §2.2
	Skipped         Key = "observation.skipped"
	ObservationLost Key = "observation.lost"
)

// Keys of texts that a browser host shows to the person at its terminal.
const (
	HostHint       Key = "host.hint"
	HostHelp       Key = "host.help"
	HostAgentEnded Key = "host.agent_ended" // with exit status and reason
	HostAccepted   Key = "host.accepted"    // with task id
	HostSent       Key = "host.sent"        // with task id
	HostTask       Key = "host.task"        // with task id, what became of it, and a summary
	HostAsk        Key = "host.ask"         // with question id, action and subject, domain, and twice the id
	HostWithdrawn  Key = "host.withdrawn"   // with question id
	HostNoQuestion Key = "host.no_question"
	HostNoTask     Key = "host.no_task"
	HostEmptyTask  Key = "host.empty_task"
	HostUnknown    Key = "host.unknown"
	HostYesNo      Key = "host.yes_no"
	HostFault      Key = "host.fault" // with the error
)

// Keys of texts that a browser host answers its side panel.
const (
	PanelTooMany         Key = "panel.too_many"
	PanelAlreadyRunning  Key = "panel.already_running"
	PanelStartFailed     Key = "panel.start_failed" // with the error
	PanelNotRunning      Key = "panel.not_running"
	PanelNoInstruction   Key = "panel.no_instruction"
	PanelTooLong         Key = "panel.too_long" // with the limit in bytes
	PanelBadParams       Key = "panel.bad_params"
	PanelUnknownFunction Key = "panel.unknown_function"
	PanelUnknownConfirm  Key = "panel.unknown_confirm"
	PanelOpen            Key = "panel.open" // with the address
	PanelClosed          Key = "panel.closed"
)

type text struct{ zh, en string }

var catalogue = map[Key]text{
	Refused:         {"用户拒绝了此操作", "the user refused this action"},
	Skipped:         {"未执行：同一回复中前面的操作没有成功", "not carried out: an earlier action of the same reply did not succeed"},
	ObservationLost: {"（其余内容已丢失：浏览器离线。请重新获取快照）", "(the rest was lost: the browser went offline; take a new snapshot)"},

	"reason.MAX_STEPS":        {"达到最大步数限制", "the limit of steps is reached"},
	"reason.TASK_TIMEOUT":     {"任务执行超时", "the task took too long"},
	"reason.REPEATED_ACTION":  {"检测到死循环：连续重复相同操作", "the same action was repeated again and again"},
	"reason.BREAKER_OPEN":     {"连续失败次数达到熔断阈值", "too many failures in a row"},
	"reason.ABORTED":          {"任务已被中止", "the task was aborted"},
	"reason.CONFIRM_EXPIRED":  {"确认请求超时，无人答复", "nobody answered the confirmation in time"},
	"reason.MODEL_FAILED":     {"模型调用失败", "the model could not be used"},
	"reason.BROWSER_GONE":     {"浏览器离线时间过长", "the browser was away for too long"},
	"reason.GAVE_UP":          {"智能体无法完成此任务", "the agent could not do the task"},
	"reason.INTERNAL_UNKNOWN": {"内部错误，详见日志", "an internal error; the log has it"},
	"reason.STEERED":          {"已并入正在进行的任务", "added to the task that was under way"},
	"reason.AGENT_NOT_FOUND":  {"没有配置此智能体", "there is no such agent"},

	"status.queued":          {"排队中", "queued"},
	"status.thinking":        {"思考中", "thinking"},
	"status.acting":          {"执行中", "acting"},
	"status.waiting_confirm": {"等待确认", "waiting for a confirmation"},
	"status.browser_offline": {"浏览器离线", "browser offline"},
	"status.cooling":         {"冷却中", "cooling down"},
	"status.done":            {"已完成", "done"},
	"status.failed":          {"失败", "failed"},
	"status.refused":         {"未获确认", "not confirmed"},
	"status.aborted":         {"已中止", "aborted"},

	// What is about to be done, for the execution log (seed 001 §4.1); what
	// it is done to follows.
	"do.click":           {"点击", "clicking"},
	"do.type":            {"填写", "filling in"},
	"do.navigate":        {"导航至", "going to"},
	"do.getText":         {"读取", "reading"},
	"do.getHtml":         {"读取 HTML", "reading the HTML of"},
	"do.waitForSelector": {"等待", "waiting for"},
	"do.pageScreenshot":  {"页面截图", "taking a picture of the page"},
	"do.select":          {"选择", "choosing in"},
	"do.scrollTo":        {"滚动至", "scrolling to"},
	"do.getAomSnapshot":  {"查看页面", "looking at the page"},
	"do.storageSet":      {"写入本地存储", "storing"},
	"do.storageGet":      {"读取本地存储", "reading from storage"},
	"do.zombieSpawn":     {"打开后台页面", "opening in the background"},
	"do.zombieKill":      {"关闭后台页面", "closing the background page"},
	"do.sessionLogin":    {"登录", "logging in to"},
	"do.sessionLogout":   {"退出登录", "logging out of"},
	"do.clearStorage":    {"清除站点数据", "clearing the data of"},

	// Roles of what a person is asked about.
	"role.button":     {"按钮", "button"},
	"role.link":       {"链接", "link"},
	"role.textbox":    {"输入框", "textbox"},
	"role.searchbox":  {"搜索框", "searchbox"},
	"role.spinbutton": {"数字框", "spinbutton"},
	"role.combobox":   {"下拉框", "combobox"},
	"role.listbox":    {"列表框", "listbox"},
	"role.option":     {"选项", "option"},
	"role.checkbox":   {"复选框", "checkbox"},
	"role.radio":      {"单选框", "radio"},
	"role.switch":     {"开关", "switch"},
	"role.tab":        {"标签页", "tab"},
	"role.menuitem":   {"菜单项", "menuitem"},
	"role.treeitem":   {"树节点", "treeitem"},
	"role.row":        {"行", "row"},
	"role.cell":       {"单元格", "cell"},
	"role.img":        {"图片", "img"},

	"agent.stopped":  {"智能体已停止", "agent stopped"},
	"agent.starting": {"智能体正在启动", "agent starting"},
	"agent.running":  {"智能体运行中", "agent running"},
	"agent.stopping": {"智能体正在停止", "agent stopping"},
	"agent.crashed":  {"智能体异常退出", "agent crashed"},
	"agent.offline":  {"服务器离线，任务已保留", "the server is away; tasks are kept"},

	HostHint: {"输入 help 查看可用命令", "type help to see what you can say here"},
	HostHelp: {
		"task 文字     交给智能体一个任务\nabort [ID]    中止任务，省略 ID 则为最近一个\nyes [ID]      允许所问操作，可简写为 y\nno [ID]       拒绝，可简写为 n\nstart, stop   启动或停止智能体\npanel         重新打开已关闭的面板\nquit          结束智能体和浏览器",
		"task TEXT     give the agent a task\nabort [ID]    stop a task, the last one if ID is left out\nyes [ID]      allow what was asked; y for short\nno [ID]       refuse it; n for short\nstart, stop   start or stop the agent\npanel         open the panel again after it was closed\nquit          end the agent and the browser",
	},
	HostAgentEnded: {"智能体退出，状态 %d：%s", "agent ended with status %d: %s"},
	HostAccepted:   {"任务 %s 已受理", "task %s accepted"},
	HostSent:       {"任务 %s 已发送", "task %s sent"},
	HostTask:       {"任务 %s %s：%s", "task %s %s: %s"},
	HostAsk:        {"%s：是否允许 %s（%s）？ yes %s / no %s", "%s: allow %s, at %s? yes %s / no %s"},
	HostWithdrawn:  {"%s 已不需要回答", "%s needs no answer any more"},
	HostNoQuestion: {"没有这个问题", "there is no such question"},
	HostNoTask:     {"没有任务", "there is no task"},
	HostEmptyTask:  {"请写明任务：task 文字", "say what to do: task TEXT"},
	HostUnknown:    {"无法识别，输入 help 查看可用命令", "not understood; type help"},
	HostYesNo:      {"请输入 yes 或 no", "say yes or no"},
	HostFault:      {"出错：%v", "fault: %v"},

	PanelTooMany:         {"操作太频繁，请稍候再试", "too many requests; try again in a moment"},
	PanelAlreadyRunning:  {"智能体已在运行", "the agent is already running"},
	PanelStartFailed:     {"智能体无法启动：%v", "the agent cannot be started: %v"},
	PanelNotRunning:      {"智能体未运行，请先启动", "the agent is not running; start it first"},
	PanelNoInstruction:   {"请输入指令", "say what to do"},
	PanelTooLong:         {"内容过长，最多 %d 字节", "too long; at most %d bytes"},
	PanelBadParams:       {"参数无效", "invalid parameters"},
	PanelUnknownFunction: {"没有这个功能", "there is no such function"},
	PanelUnknownConfirm:  {"该请求已处理或已失效", "this question is settled, or there is no such question"},
	PanelOpen:            {"面板已打开：%s", "the panel is open: %s"},
	PanelClosed:          {"面板已关闭", "the panel was closed"},
}
